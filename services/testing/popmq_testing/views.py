"""What a test looks at: what a topic holds, where a group is, what it gave up."""

import json
from dataclasses import dataclass
from typing import Any

Body = bytes | str | dict[str, Any] | list[Any]
"""Text is compared as UTF-8; a dictionary or a list with the body read as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message as its topic holds it."""

    topic: str
    body: bytes
    message_id: str
    tag: str
    keys: tuple[str, ...]
    message_group: str
    properties: dict[str, str]
    stored_ms: int

    def json(self) -> Any:
        """Raises `ValueError`."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterView:
    """What a group gave up."""

    topic: str
    body: bytes
    message_id: str
    attempts: int
    reason: str
    redriven: bool


@dataclass(frozen=True, slots=True)
class GroupView:
    """Where the messages of one topic are for a group, at one moment."""

    group: str
    topic: str
    ready: int
    held: int
    """By consumers."""
    waiting: int
    """For their next delivery, after a nack with a delay."""
    blocked: int
    """By an earlier message of their message group."""

    @property
    def left(self) -> int:
        return self.ready + self.held + self.waiting + self.blocked

    def __str__(self) -> str:
        return (
            f"group {self.group} has {self.left} messages of topic {self.topic} left: "
            f"{self.ready} ready, {self.held} held by consumers, {self.waiting} waiting for their "
            f"next delivery, {self.blocked} behind an earlier one of their message group"
        )


class TopicView:
    """A topic's messages at one moment, in the order of their storing."""

    def __init__(self, name: str, messages: list[SentMessage]) -> None:
        self.name = name
        self.messages = messages

    def __len__(self) -> int:
        return len(self.messages)

    def assert_sent(
        self,
        body: Body | None = None,
        *,
        tag: str | None = None,
        key: str | None = None,
        message_group: str | None = None,
        properties: dict[str, str] | None = None,
        times: int | None = None,
    ) -> SentMessage:
        """At least one such message is there, or exactly `times`; the newest is returned.

        Of `properties` those that are named must be equal. Raises `AssertionError`, which shows
        what is there instead, and `ValueError` for no times: that is `assert_nothing_sent`.
        """
        __tracebackhide__ = True
        if times == 0:
            raise ValueError("a message that was sent 0 times: use assert_nothing_sent")
        found = [
            one
            for one in self.messages
            if (body is None or is_body(one.body, body))
            and tag in (None, one.tag)
            and (key is None or key in one.keys)
            and message_group in (None, one.message_group)
            and (properties or {}).items() <= one.properties.items()
        ]
        if not found if times is None else len(found) != times:
            wanted = {
                "body": body,
                "tag": tag,
                "key": key,
                "message_group": message_group,
                "properties": properties,
            }
            asked = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value)
            count = "no message" if times is None else f"{len(found)} messages, not {times},"
            raise AssertionError(
                f"topic {self.name} has {count} with {asked or 'anything'}\n{self._listing()}"
            )
        return found[-1]

    def assert_nothing_sent(self) -> None:
        """Raises `AssertionError`, which shows what is there."""
        __tracebackhide__ = True
        if self.messages:
            raise AssertionError(f"topic {self.name} is not empty\n{self._listing()}")

    def _listing(self) -> str:
        if not self.messages:
            return "  it is empty"
        lines = [
            f"  {one.body[:80]!r} tag={one.tag!r} keys={list(one.keys)}"
            for one in self.messages[-20:]
        ]
        more = len(self.messages) - len(lines)
        return "\n".join([f"  it holds {len(self.messages)}:", *lines]) + (
            f"\n  and {more} before them" if more else ""
        )


def is_body(found: bytes, wanted: Body) -> bool:
    if isinstance(wanted, bytes):
        return found == wanted
    if isinstance(wanted, str):
        return found == wanted.encode()
    try:
        return bool(json.loads(found) == wanted)
    except ValueError:
        return False
