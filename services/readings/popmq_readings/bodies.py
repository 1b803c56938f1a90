"""Bodies of messages as text."""


def body_text(body: bytes, *, cut: bool = False) -> str | None:
    """None: it is not text. `cut`: its last character may be half there."""
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        if not cut or wrong.start < len(body) - 3:
            return None
        text = body[: wrong.start].decode()
    return text if all(char.isprintable() or char in "\n\r\t" for char in text) else None
