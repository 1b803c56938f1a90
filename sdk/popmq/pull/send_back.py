"""Sending a message back that was pulled: what a handler's end means, and the call that says it.

a handler                        the message
------------------------------   ---------------------------------------------------------
returns                          is done
raises Retry()                   is redelivered by the delay levels: 10 s, 30 s, 1 min, …
raises Retry(delay_s)            is redelivered after the first level that is as long
raises RetryAtLevel(level)       is redelivered after that level
raises Reject()                  is dead
raises anything else             as Retry(), with what it raised for a reason
does not end in time             is redelivered after level 3
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from popmq.connection.connection import Connection
from popmq.errors import check
from popmq.message import ReceivedMessage
from popmq.outcome import Reject, Retry
from popmq.pull.assignment import Queue
from popmq.pull.offset_store import message_queue
from popmq_consumer.v1 import consumer_pb2 as consumer

TO_DEAD_LETTERS = -1
TIMED_OUT_LEVEL = 3
REASON_CHARS_MAX = 1_000  # the server keeps no more


class RetryAtLevel(Retry):
    """It shall be redelivered after RocketMQ's delay level `level`, 1 or higher."""

    def __init__(self, level: int, reason: str = "") -> None:
        if level < 1:
            raise ValueError(f"delay level {level}, 1 or higher is needed")
        super().__init__(None, reason)
        self.level = level


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailure:
    """How a handler ended, when it did not return."""

    level: int = 0
    """-1: dead; 0: as `delay_s` or the attempts so far say."""
    delay_s: float | None = None
    counted: bool = True
    reason: str = ""

    @property
    def dead(self) -> bool:
        return self.level == TO_DEAD_LETTERS


async def attempt(
    work: Callable[[], Awaitable[None]], timeout_s: float | None
) -> HandlerFailure | None:
    """Run a handler; None: it returned."""
    try:
        async with asyncio.timeout(timeout_s) as limit:
            await work()
    except Reject as rejected:
        return HandlerFailure(level=TO_DEAD_LETTERS, reason=rejected.reason)
    except RetryAtLevel as retry:
        return HandlerFailure(level=retry.level, reason=retry.reason)
    except Retry as retry:
        return HandlerFailure(delay_s=retry.delay_s, counted=retry.counted, reason=retry.reason)
    except Exception as failed:
        if limit.expired():
            reason = f"the handler did not end within {timeout_s:g} s"
            return HandlerFailure(level=TIMED_OUT_LEVEL, reason=reason)
        return HandlerFailure(reason=f"{type(failed).__name__}: {failed}")
    return None


async def send_back(
    connection: Connection,
    topic: str,
    message: ReceivedMessage,
    failure: HandlerFailure,
    *,
    max_attempts: int | None = None,
    attempts: int = 0,
) -> bool:
    """True: it is among the dead letters now. Returns when the copy is on the broker's disk.

    `topic`: where it was pulled. `attempts`: so far, of a message that was tried in its place.
    Raises the errors of `popmq.errors`: then it is perhaps not sent
    back, or, when the answer was lost, perhaps twice.
    """
    queue = Queue(message.broker, message.queue_id)
    request = consumer.SendBackRequest(
        group=connection.resource(message.group),
        message_queue=message_queue(connection, topic, queue),
        offset=message.queue_offset,
        level=failure.level,
        uncounted=not failure.counted,
        max_attempts=max_attempts or 0,
        reason=failure.reason[:REASON_CHARS_MAX],
        attempts=attempts,
    )
    if failure.delay_s is not None:
        request.delay.FromMilliseconds(round(failure.delay_s * 1000))
    response = await connection.ask(connection.consumer.SendBack, request)
    check(response.status)
    return bool(response.dead)
