"""A body for a page: by the Protobuf type of its topic, as text if it is text, JSON made readable,
else the first bytes in hex."""

import json
from dataclasses import dataclass, replace
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading.masks import HIDDEN, topics_of
from popmq_console.reading.protobuf_bodies import DecodedBody, ProtobufTypes
from popmq_readings.bodies import body_text

TEXT_CHARS_MAX: Final = 100_000
HEX_BYTES_MAX: Final = 512
HEX_ROW: Final = 16
LINE_CHARS: Final = 110


@dataclass(frozen=True, slots=True)
class ShownBody:
    kind: str
    """text, JSON, bytes, or the name of a Protobuf type."""
    text: str | None
    hex: str
    size_bytes: int
    hex_bytes: int
    cut: bool
    note: str = ""
    """What else there is to say of it; empty: nothing."""


def shown_message(message: admin.StoredMessage, types: ProtobufTypes) -> ShownBody:
    """Its body; as JSON if its topic has a Protobuf type."""
    body, size_bytes = message.body, message.body_bytes
    decoded = _decoded(message, types)
    if decoded is None:
        return shown_body(body, size_bytes)
    if decoded.failure:
        note = f"Not shown as {decoded.type_name}: {decoded.failure}."
        return replace(shown_body(body, size_bytes), note=note)
    unknown = "It has fields that this type lacks: it may be of another type, or a newer version."
    text = decoded.text
    return ShownBody(
        decoded.type_name,
        text[:TEXT_CHARS_MAX],
        "",
        size_bytes,
        0,
        len(text) > TEXT_CHARS_MAX,
        unknown if decoded.has_unknown else "",
    )


def head_of(message: admin.StoredMessage, types: ProtobufTypes) -> str:
    """One line of a message's body, for a table."""
    decoded = _decoded(message, types)
    if decoded is None or decoded.failure:
        return head_line(message.body, message.body_bytes)
    return _line(decoded.text)


def _decoded(message: admin.StoredMessage, types: ProtobufTypes) -> DecodedBody | None:
    """None: there is no type for it, it is not whole, or it is hidden."""
    if message.body_bytes != len(message.body) or message.body == HIDDEN.encode():
        return None
    return types.decoded(topics_of(message.topic, message.properties), message.body)


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
    return _line(text)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"
