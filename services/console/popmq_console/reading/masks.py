"""What nobody sees on a page: parts of bodies, by JSONPath (RFC 9535), and properties, by topic.

A mask file is TOML:

    [[mask]]
    topics = ["orders", "payments-*"]
    body = ["$.card.number", "$.customers[*].email"]
    properties = ["customer-phone"]
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import jsonpath

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records.names import RETRY_PREFIX
from popmq_common.records.properties import DLQ_ORIGIN_TOPIC, REAL_TOPIC, RETRY_TOPIC

SHOWN: Final = "***"
HIDDEN: Final = "hidden: it cannot be masked, since it is not JSON or only its beginning was read"
FIELDS: Final = {"topics", "body", "properties"}
WITH_BODIES: Final = (admin.StoredMessage.DESCRIPTOR.name, admin.DeadLetter.DESCRIPTOR.name)
ORIGINS: Final = (REAL_TOPIC, RETRY_TOPIC, DLQ_ORIGIN_TOPIC)


class WrongMaskFile(ValueError):
    """The file of masks cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Mask:
    topics: tuple[str, ...]
    """Names, or patterns with `*`."""
    body: tuple[jsonpath.JSONPath | jsonpath.CompoundJSONPath, ...]
    properties: tuple[str, ...]

    def covers(self, topics: Iterable[str]) -> bool:
        return any(fnmatchcase(topic, one) for topic in topics for one in self.topics)


class Masks:
    """Applied to every answer before a page, a filter or a file sees it."""

    def __init__(self, masks: Sequence[Mask] = ()) -> None:
        self._masks = tuple(masks)

    def __len__(self) -> int:
        return len(self._masks)

    def apply(self, answer: Any) -> None:
        """Changes the messages in it."""
        if not self._masks:
            return
        for message in _messages(answer):
            self._mask(message)

    def hide_properties_of(self, topic: str) -> bool:
        """Whether some of its messages' properties are hidden: a filter by properties, tried often
        enough, would tell them. Retries and dead letters may be of any topic."""
        hiding = [mask for mask in self._masks if mask.properties]
        return any(topic.startswith("%") or mask.covers([topic]) for mask in hiding)

    def _mask(self, message: Any) -> None:
        topics = set(topics_of(message.topic, message.properties))
        found = [mask for mask in self._masks if mask.covers(topics)]
        for name in [name for mask in found for name in mask.properties]:
            if name in message.properties:
                message.properties[name] = SHOWN
        paths = [path for mask in found for path in mask.body]
        if paths and message.body:
            message.body = masked_body(message.body, message.body_bytes, paths)


def masked_body(body: bytes, size_bytes: int, paths: Iterable[Any]) -> bytes:
    """JSON with `***` in place of what a path finds. What is no JSON, or not whole, is hidden."""
    try:
        if size_bytes > len(body):
            raise ValueError("a part of it")
        value = json.loads(body)
        for path in paths:
            for place in [match.parts for match in path.finditer(value)]:
                value = _without(value, place)
        return json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError, jsonpath.JSONPathError):
        return HIDDEN.encode()


def _without(value: Any, place: Sequence[str | int]) -> Any:
    """The path may lead below what another one hid."""
    if not place:
        return SHOWN
    inner = value
    for step in place[:-1]:
        inner = inner[step]
        if inner == SHOWN:
            return value
    inner[place[-1]] = SHOWN
    return value


def _messages(answer: Any) -> Iterator[Any]:
    """The lists of messages that an answer has; no answer has them deeper or alone."""
    for field in answer.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.name in WITH_BODIES:
            yield from getattr(answer, field.name)


def topics_of(topic: str, properties: Mapping[str, str]) -> Iterator[str]:
    """Where it lies, and where it came from: retries, dead letters, delayed and half messages."""
    yield topic
    for name in ORIGINS:
        if properties.get(name):
            yield properties[name]
    group_and_topic = topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else ""
    for at, char in enumerate(group_and_topic):
        if char == "_":  # in names, too, so that each may end the group's
            yield group_and_topic[at + 1 :]


def read_masks(file: Path) -> Masks:
    """Raises `WrongMaskFile`, `OSError`."""
    try:
        content = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise WrongMaskFile(f"{file} is not TOML: {wrong}") from wrong
    tables = content.pop("mask", [])
    if content or not isinstance(tables, list) or not tables:
        raise WrongMaskFile(f"{file}: write tables [[mask]], and nothing else")
    return Masks([_mask_of(table, f"{file}, mask {at}") for at, table in enumerate(tables, 1)])


def _mask_of(table: Any, where: str) -> Mask:
    if not isinstance(table, dict) or not table.keys() <= FIELDS:
        raise WrongMaskFile(f"{where}: its fields are topics, body and properties")
    topics, body, properties = (
        _texts(table, name, where) for name in ("topics", "body", "properties")
    )
    if not topics or not (body or properties):
        raise WrongMaskFile(f"{where}: it needs topics, and body or properties")
    paths = []
    for text in body:
        try:
            paths.append(jsonpath.compile(text))
        except jsonpath.JSONPathError as wrong:
            why = str(wrong).split("\n", 1)[0]
            raise WrongMaskFile(f"{where}: {text!r} is no JSONPath: {why}") from wrong
    return Mask(topics, tuple(paths), properties)


def _texts(table: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise WrongMaskFile(f'{where}: {name} is a list of texts: {name} = ["..."]')
    return tuple(found)
