"""The business key of a message, and the fingerprint of its payload.

A message id is no key: a sender that tries again by itself gives the same order a new id. A key
says what the message is about: order 100.

    message_key()              the first of its keys
    message_property("order")  a property
    body_path("order.id")      a field of a JSON body; numbers index lists: "items.0.sku"
    lambda message: …          a function of your own; None means that there is none
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from popmq.idempotence.errors import KeyMissing
from popmq.message import ReceivedMessage

KeyOf = Callable[[ReceivedMessage], str | None]
PayloadOf = Callable[[ReceivedMessage], bytes]
KEY_BYTES_MAX = 200  # as UTF-8; a longer key is known by its SHA-256


@dataclass(frozen=True, slots=True)
class message_key:
    """One of the message's keys; `index` counts from 0."""

    index: int = 0

    def __call__(self, message: ReceivedMessage) -> str:
        if self.index >= len(message.keys):
            raise KeyMissing(message, f"it has {len(message.keys)} keys, wanted is {self.index}")
        return _filled(message, message.keys[self.index], f"keys[{self.index}]")


@dataclass(frozen=True, slots=True)
class message_property:
    """A user property of the message."""

    name: str

    def __call__(self, message: ReceivedMessage) -> str:
        if self.name not in message.properties:
            raise KeyMissing(message, f"property {self.name!r} is not set")
        return _filled(message, message.properties[self.name], f"property {self.name!r}")


@dataclass(frozen=True, slots=True)
class body_path:
    """A string or whole number in a JSON body, by names and list indices with dots between."""

    path: str

    def __call__(self, message: ReceivedMessage) -> str:
        try:
            found = json.loads(message.body)
        except ValueError as broken:  # also a body that is no UTF-8
            raise KeyMissing(message, f"its body is no JSON ({broken})") from broken
        walked: list[str] = []
        for step in self.path.split("."):
            walked.append(step)
            found = _step(found, step)
            if found is None:
                raise KeyMissing(message, f"its body has no {'.'.join(walked)}")
        if isinstance(found, bool) or not isinstance(found, str | int):
            kind = type(found).__name__
            raise KeyMissing(message, f"{self.path} is a {kind}, not a string or whole number")
        return _filled(message, str(found), self.path)


def _step(value: object, step: str) -> object:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        inner: object = value[int(step)]
        return inner
    return None


def _filled(message: ReceivedMessage, key: str, source: str) -> str:
    if not key:
        raise KeyMissing(message, f"{source} is empty")
    return key


def key_of(message: ReceivedMessage, select: KeyOf) -> str:
    """Raises `KeyMissing`; also when `select` returns None or an empty string."""
    key = select(message)
    if not key:
        raise KeyMissing(message, f"{getattr(select, '__qualname__', select)} returned {key!r}")
    return bounded(key)


def bounded(key: str) -> str:
    """The key itself, or its SHA-256 where a store could not hold it as it is."""
    encoded = key.encode(errors="surrogatepass")
    if len(encoded) <= KEY_BYTES_MAX and key.isprintable() and not key.endswith(" "):
        return key
    return "sha256:" + hashlib.sha256(encoded).hexdigest()


def body_of(message: ReceivedMessage) -> bytes:
    return message.body


def fingerprint(payload: bytes) -> str:
    """64 characters; equal payloads have equal ones."""
    return hashlib.sha256(payload).hexdigest()
