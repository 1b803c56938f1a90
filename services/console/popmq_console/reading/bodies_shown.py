"""A body for a page: as text if it is text, JSON made readable, else the first bytes in hex."""

import json
from dataclasses import dataclass
from typing import Final

from popmq_readings.bodies import body_text

TEXT_CHARS_MAX: Final = 100_000
HEX_BYTES_MAX: Final = 512
HEX_ROW: Final = 16
LINE_CHARS: Final = 110


@dataclass(frozen=True, slots=True)
class ShownBody:
    kind: str
    """text, JSON, bytes."""
    text: str | None
    hex: str
    size_bytes: int
    hex_bytes: int
    cut: bool


def shown_body(body: bytes, size_bytes: int) -> ShownBody:
    """`size_bytes`: of the whole body, of which `body` is the beginning."""
    cut = size_bytes > len(body)
    text = body_text(body, cut=cut)
    if text is None:
        head = body[:HEX_BYTES_MAX]
        more = len(head) < size_bytes
        return ShownBody("bytes", None, hex_rows(head), size_bytes, len(head), more)
    kind = "text"
    if not cut and (readable := _json(text)) is not None:
        kind, text = "JSON", readable
    too_long = len(text) > TEXT_CHARS_MAX
    return ShownBody(kind, text[:TEXT_CHARS_MAX], "", size_bytes, 0, cut or too_long)


def _json(text: str) -> str | None:
    """None: it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return None


def hex_rows(body: bytes) -> str:
    """Offset, bytes, and what of them can be printed."""
    rows = []
    for at in range(0, len(body), HEX_ROW):
        part = body[at : at + HEX_ROW]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        rows.append(f"{at:06x}  {part.hex(' '):<47}  {shown}")
    return "\n".join(rows)


def head_line(body: bytes, size_bytes: int) -> str:
    """One line of it, for a table."""
    text = body_text(body[: 4 * LINE_CHARS], cut=size_bytes > 4 * LINE_CHARS)
    if text is None:
        return f"{body[:12].hex(' ')} …"
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"
