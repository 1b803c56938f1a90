"""Words that depend on a number."""


def counted(count: int, one: str, several: str = "") -> str:
    """1 message, 2 messages; `several` where an s is not enough."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
