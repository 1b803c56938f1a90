"""What people write on the command line, as types that click reads: times, durations, positions.

A time is written as commands print it. A duration has a unit; a number alone is seconds.
"""

import re
import time
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from popmq_admin.v1 import admin_pb2 as admin
from popmq_readings.times import duration_ms, duration_text, moment, point_in_time

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DURATION_MS_MAX: Final = 100 * 365 * 86_400_000
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Number(click.IntRange):
    """A whole number, shown as N."""

    name = "n"

    def __init__(self, min: int = 0, max: int = INT32_MAX) -> None:
        super().__init__(min, max)

    def _describe_range(self) -> str:
        """A bound that only the number's size sets is not worth a word."""
        return f"x>={self.min}" if self.max in (INT32_MAX, INT64_MAX) else super()._describe_range()


PORT: Final = Number(0, 65_535)
OFFSET: Final = Number(0, INT64_MAX)


class Duration(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    """Milliseconds, of 500ms, 5s, 10m, 2h, 7d; a number alone is seconds."""

    name = "duration"

    def __init__(self, min_ms: int = 0, max_ms: int = DURATION_MS_MAX) -> None:
        self.min_ms, self.max_ms = min_ms, max_ms

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        try:
            ms = duration_ms(f"{text}s" if _NUMBER.fullmatch(text) else text)
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)
        if not self.min_ms <= ms <= self.max_ms:
            low, high = duration_text(self.min_ms), duration_text(self.max_ms)
            self.fail(f"{text} is not between {low} and {high}", param, ctx)
        return ms


class Time(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    """Milliseconds since 1970."""

    name = "time"

    def __init__(self, *, ago: bool = True) -> None:
        """`ago`: a duration is that long before now."""
        self._ago = ago

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return point_in_time(str(value), now_ms(), ago=self._ago)
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)


class StartAt(NamedTuple):
    """Where a group starts, as the admin API says it."""

    consume_from: str
    time_ms: int = 0

    def __str__(self) -> str:
        if self.consume_from == "TIME":
            return f"messages stored since {moment(self.time_ms)}"
        return f"the {self.consume_from.lower()} message"

    def put_into(self, group: admin.Group | admin.UpdateGroupRequest) -> None:
        group.consume_from, group.consume_from_ms = self


class StartType(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    """last, first, or a time."""

    name = "last|first|time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> StartAt:
        if value in ("last", "first"):
            return StartAt(value.upper())
        return StartAt("TIME", Time().convert(value, param, ctx))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(one) for one in ("last", "first") if one.startswith(incomplete)]


class QueueRef(NamedTuple):
    broker: str
    """Empty: it is not named."""
    queue_id: int

    def __str__(self) -> str:
        return f"{self.broker}:{self.queue_id}" if self.broker else str(self.queue_id)


class MessagePosition(NamedTuple):
    """Where a message is stored."""

    broker: str
    """Empty: it is not named."""
    queue_id: int
    offset: int

    def __str__(self) -> str:
        return f"{QueueRef(self.broker, self.queue_id)}:{self.offset}"


class QueueType(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    """[BROKER:]QUEUE."""

    name = "[broker:]queue"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> QueueRef:
        broker, colon, queue = str(value).rpartition(":")
        if bool(broker) != bool(colon) or _whole(queue, INT32_MAX) is None:
            text = f"{value!r} is neither QUEUE nor BROKER:QUEUE, like 0 or broker-a:0"
            self.fail(text, param, ctx)
        return QueueRef(broker, int(queue))


class MessageType(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    """A message's id as it is, or the `MessagePosition` of [BROKER:]QUEUE:OFFSET."""

    name = "message"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | MessagePosition:
        rest, colon, last = str(value).rpartition(":")
        broker, _, queue = rest.rpartition(":")
        if not colon:
            return str(value)
        if _whole(last, INT64_MAX) is None or _whole(queue, INT32_MAX) is None:
            text = f"{value!r} is neither a message id nor QUEUE:OFFSET nor BROKER:QUEUE:OFFSET"
            self.fail(text, param, ctx)
        return MessagePosition(broker, int(queue), int(last))


def _whole(text: str, most: int) -> int | None:
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= most:
        return int(text)
    return None
