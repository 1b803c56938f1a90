"""Messages with values that nobody in their senses would send, made from their descriptors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
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


class Messages:
    """Strategies by type, each made once."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._by_type: dict[tuple[str, int], st.SearchStrategy[Any]] = {}

    def of(self, kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
        """Of a message's descriptor."""
        key = kind.full_name, depth
        if key not in self._by_type:
            self._by_type[key] = self._build(kind, depth)
        return self._by_type[key]

    def _build(self, kind: Any, depth: int) -> st.SearchStrategy[Any]:
        fields = [(field, self._value(field, depth)) for field in kind.fields]
        chosen = st.integers(0, 7)

        @st.composite
        def build(draw: st.DrawFn) -> Any:
            made = GetMessageClass(kind)()
            for field, value in fields:
                if value is not None and draw(chosen):  # of a oneof the last that is set stays
                    _put(made, field, draw(value))
            return made

        return build()

    def _value(self, field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any] | None:
        """None: a nest that is deep enough."""
        if field.type == Fd.TYPE_MESSAGE:
            if depth >= DEPTH_MAX:
                return None
            one = st.deferred(lambda: self.of(field.message_type, depth + 1))
        else:
            one = self._scalar(field)
        return st.lists(one, max_size=REPEATED_MAX) if field.is_repeated else one

    def _scalar(self, field: FieldDescriptor) -> st.SearchStrategy[Any]:
        plain = _any(field)
        sensible = [value for value in self._known.get(field.name, ()) if _fits(field, value)]
        return st.one_of(*[st.sampled_from(sensible)] * 4, plain) if sensible else plain


def _put(into: Any, field: FieldDescriptor, value: Any) -> None:
    if field.is_repeated and field.message_type and field.message_type.GetOptions().map_entry:
        for entry in value:
            if field.message_type.fields_by_name["value"].type == Fd.TYPE_MESSAGE:
                getattr(into, field.name)[entry.key].CopyFrom(entry.value)
            else:
                getattr(into, field.name)[entry.key] = entry.value
    elif field.is_repeated:
        getattr(into, field.name).extend(value)
    elif field.type == Fd.TYPE_MESSAGE:
        getattr(into, field.name).CopyFrom(value)
    else:
        setattr(into, field.name, value)


def _fits(field: FieldDescriptor, value: Any) -> bool:
    if field.type == Fd.TYPE_STRING:
        return isinstance(value, str)
    if field.type == Fd.TYPE_BYTES:
        return isinstance(value, bytes)
    if field.type == Fd.TYPE_ENUM:
        kind: Any = field.enum_type
        return isinstance(value, int) and value in [known.number for known in kind.values]
    return isinstance(value, int)


def _any(field: FieldDescriptor) -> st.SearchStrategy[Any]:
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
