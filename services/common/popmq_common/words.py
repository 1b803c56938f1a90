"""Words that depend on a number."""


def counted(count: int, one: str, several: str = "") -> str:
    """1 message, 2 messages; `several` where an s is not enough."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def numbered(thing: str, first: int, last: int) -> str:
    """queue 3; queues 1 to 3."""
    return f"{thing} {first}" if first == last else f"{thing}s {first} to {last}"
