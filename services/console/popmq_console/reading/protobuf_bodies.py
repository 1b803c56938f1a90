"""Protobuf bodies as JSON, by the types that somebody named for topics.

The types come from a descriptor set, as `protoc --include_imports --descriptor_set_out=FILE` writes
it. Nothing of a message says which type it has, so bytes of another type may be read as this one;
what is left over is told.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf import json_format, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

FILE_BYTES_MAX: Final = 16 << 20
BODY_BYTES_MAX: Final = 256 << 10
"""Larger ones would hold up the other pages while they are read."""


class WrongTypes(ValueError):
    """Descriptor set or topic types cannot be used; the text says why."""


class DecodedBody(NamedTuple):
    type_name: str
    text: str
    """JSON, or Protobuf's text format where there is no JSON for it; empty: see `failure`."""
    failure: str = ""
    has_unknown: bool = False
    """Fields that the type does not have: the message may be of another one."""


@dataclass(frozen=True, slots=True)
class TopicType:
    topic: str
    """A name, or a pattern with `*`."""
    type_name: str
    message: type[Message] = field(repr=False)


class ProtobufTypes:
    """By topic; the first that fits counts."""

    def __init__(self, types: Sequence[TopicType] = (), pool: DescriptorPool | None = None) -> None:
        self._types = tuple(types)
        self._pool = pool

    def __len__(self) -> int:
        return len(self._types)

    def decoded(self, topics: Iterable[str], body: bytes) -> DecodedBody | None:
        """`topics`: where the message lies, and where it came from. None: no type is named."""
        names = list(topics)
        for one in self._types:
            if any(fnmatchcase(name, one.topic) for name in names):
                return self._decoded(one, body)
        return None

    def _decoded(self, one: TopicType, body: bytes) -> DecodedBody:
        if len(body) > BODY_BYTES_MAX:
            why = f"it has more than {BODY_BYTES_MAX} bytes"
            return DecodedBody(one.type_name, "", why)
        message = one.message()
        try:
            message.ParseFromString(body)
        except DecodeError:
            return DecodedBody(one.type_name, "", "it is no message of this type")
        known = one.message()
        known.CopyFrom(message)
        known.DiscardUnknownFields()  # type: ignore[no-untyped-call, unused-ignore]
        has_unknown = known.ByteSize() < message.ByteSize()
        return DecodedBody(one.type_name, self._text(message), has_unknown=has_unknown)

    def _text(self, message: Message) -> str:
        try:
            return json_format.MessageToJson(
                message,
                preserving_proto_field_name=True,
                ensure_ascii=False,
                descriptor_pool=self._pool,
            )
        except (json_format.Error, TypeError, ValueError):  # an Any of a type that is not there
            return text_format.MessageToString(message, descriptor_pool=self._pool)


def read_protobuf_types(file: Path, topic_types: Iterable[str]) -> ProtobufTypes:
    """`topic_types`: TOPIC=package.Message. Raises `WrongTypes`, `OSError`."""
    if file.stat().st_size > FILE_BYTES_MAX:
        raise WrongTypes(f"{file} has more than {FILE_BYTES_MAX} bytes")
    found = FileDescriptorSet()
    try:
        found.ParseFromString(file.read_bytes())
    except DecodeError as wrong:
        raise WrongTypes(f"{file} is no descriptor set: {HOW}") from wrong
    if not found.file:
        raise WrongTypes(f"{file} has no types: {HOW}")
    pool = _pool(file, found.file)
    return ProtobufTypes([_topic_type(pool, file, text) for text in topic_types], pool)


HOW: Final = "write one with protoc --include_imports --descriptor_set_out=FILE"


def _pool(file: Path, files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    """Each file behind those that it imports."""
    pool = DescriptorPool()
    waiting: Mapping[str, FileDescriptorProto] = {one.name: one for one in files}
    added: set[str] = set()
    while waiting:
        ready = [one for one in waiting.values() if added >= set(one.dependency)]
        if not ready:
            lacking = sorted(
                {name for one in waiting.values() for name in one.dependency}
                - added
                - waiting.keys()
            )
            what = ", ".join(lacking) or "files that import each other"
            raise WrongTypes(f"{file} lacks {what}: {HOW}")
        for one in ready:
            try:
                pool.Add(one)  # type: ignore[no-untyped-call, unused-ignore]
            except TypeError as wrong:
                raise WrongTypes(f"{file}: {one.name} cannot be used: {wrong}") from wrong
            added.add(one.name)
        waiting = {name: one for name, one in waiting.items() if name not in added}
    return pool


def _topic_type(pool: DescriptorPool, file: Path, text: str) -> TopicType:
    topic, equals, name = (part.strip() for part in text.partition("="))
    if not equals or not topic or not name:
        raise WrongTypes(f"{text!r} is no type of a topic: write TOPIC=package.Message")
    try:
        described: Any = pool.FindMessageTypeByName(name)  # type: ignore[no-untyped-call, unused-ignore]
    except KeyError as wrong:
        raise WrongTypes(f"{file} has no message {name}") from wrong
    return TopicType(topic, name, GetMessageClass(described))
