"""Messages with values that nobody in their senses would send, made from their descriptors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

Fd = FieldDescriptor
DEPTH_MAX: Final = 6
REPEATED_MAX: Final = 3
_32: Final = (Fd.TYPE_INT32, Fd.TYPE_SINT32, Fd.TYPE_SFIXED32, Fd.TYPE_ENUM)
_U32: Final = (Fd.TYPE_UINT32, Fd.TYPE_FIXED32)
_U64: Final = (Fd.TYPE_UINT64, Fd.TYPE_FIXED64)
_FLOATS: Final = (0.0, -1.0, 1.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
_TEXTS: Final = (
    "",
    " ",
    "x",
    "\0",
    "\x01",
    "\x02",
    "%RETRY%g",
    "%DLQ%g",
    "../../x",
    "a@b%c{d}",
    "\U0010ffff",
    "é" * 200,
    "x" * 300,
    "x" * 40_000,
    "-9223372036854775809",
    "1e400",
    "null",
)
Known = Mapping[str, Sequence[Any]]
"""By a field's name: values that mean something, so that some requests come further."""


def messages(kind: type[Message], known: Known) -> st.SearchStrategy[Any]:
    return _message(kind.DESCRIPTOR, known, 0)


def _message(kind: Any, known: Known, depth: int) -> st.SearchStrategy[Any]:
    @st.composite
    def build(draw: st.DrawFn) -> Any:
        made = GetMessageClass(kind)()
        for field in _chosen(draw, kind):
            _fill(draw, made, field, known, depth)
        return made

    return build()


def _chosen(draw: st.DrawFn, kind: Any) -> list[FieldDescriptor]:
    """Most fields; of a oneof the last that is set stays."""
    return [field for field in kind.fields if draw(st.integers(0, 7)) > 0]


def _fill(draw: st.DrawFn, into: Any, field: FieldDescriptor, known: Known, depth: int) -> None:
    value = _value(field, known, depth)
    if value is None:
        return
    if not field.is_repeated:
        found = draw(value)
        if field.type == Fd.TYPE_MESSAGE:
            getattr(into, field.name).CopyFrom(found)
        else:
            setattr(into, field.name, found)
        return
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for entry in draw(st.lists(value, max_size=REPEATED_MAX)):
            if entry.DESCRIPTOR.fields_by_name["value"].type == Fd.TYPE_MESSAGE:
                getattr(into, field.name)[entry.key].CopyFrom(entry.value)
            else:
                getattr(into, field.name)[entry.key] = entry.value
        return
    getattr(into, field.name).extend(draw(st.lists(value, max_size=REPEATED_MAX)))


def _value(field: FieldDescriptor, known: Known, depth: int) -> st.SearchStrategy[Any] | None:
    if field.type == Fd.TYPE_MESSAGE:
        return None if depth >= DEPTH_MAX else _message(field.message_type, known, depth + 1)
    plain = _scalar(field)
    if field.name in known:
        return st.sampled_from(list(known[field.name])) | plain
    return plain


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type == Fd.TYPE_BOOL:
        return st.booleans()
    if field.type == Fd.TYPE_STRING:
        return st.sampled_from(_TEXTS) | st.text(max_size=20)
    if field.type == Fd.TYPE_BYTES:
        lengths = st.sampled_from((0, 1, 7, 8, 9, 12, 19, 20, 21, 33_000))
        return st.binary(max_size=40) | lengths.map(bytes)
    if field.type in (Fd.TYPE_DOUBLE, Fd.TYPE_FLOAT):
        return st.sampled_from(_FLOATS) | st.floats(width=32)
    if field.type == Fd.TYPE_ENUM:
        kind: Any = field.enum_type
        named = [value.number for value in kind.values]
        return st.sampled_from([*named, *named, -1, 99, 2**31 - 1, -(2**31)])
    low, high = -(2**63), 2**63 - 1
    if field.type in _32:
        low, high = -(2**31), 2**31 - 1
    elif field.type in _U32:
        low, high = 0, 2**32 - 1
    elif field.type in _U64:
        low, high = 0, 2**64 - 1
    edges = [low, low + 1, -1, 0, 1, 2, 3, 31, 32, 33, 1_000, 2**31 - 1, 2**31, 2**53, high]
    return st.sampled_from([edge for edge in edges if low <= edge <= high])
