"""One request for many entries, asked again for those that may yet be done."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq.connection.pause import pause
from popmq.errors import BrokerUnavailable, PopMQClientError, check, error_of

T = TypeVar("T")
Result = TypeVar("Result")


async def ask_each(
    items: Sequence[T],
    ask: Callable[[list[T]], Awaitable[Any]],
    done: Callable[[Any], Result],
    patience_s: float,
    elsewhere: Callable[[], None],
) -> list[Result | Exception]:
    """Per item what `done` makes of its entry, or what went wrong with it.

    `ask` makes a request and returns a response with a status and entries that have one each.
    What went wrong and is worth another try is tried for `patience_s`: through another server, by
    `elsewhere`, when this one says that it does not reach a broker.
    """
    deadline = time.monotonic() + patience_s
    results = await _once(list(items), ask, done)
    failures = 0
    while left := [i for i, result in enumerate(results) if _may_yet_be_done(result)]:
        if time.monotonic() >= deadline:
            break
        failures += 1
        await pause(failures)
        if any(isinstance(results[i], BrokerUnavailable) for i in left):
            elsewhere()
        for i, result in zip(left, await _once([items[i] for i in left], ask, done), strict=True):
            results[i] = result
    return results


def _may_yet_be_done(result: object) -> bool:
    return isinstance(result, PopMQClientError) and result.retriable


async def _once(
    items: list[T], ask: Callable[[list[T]], Awaitable[Any]], done: Callable[[Any], Result]
) -> list[Result | Exception]:
    try:
        response = await ask(items)
        if len(response.entries) != len(items):
            check(response.status)
            text = f"{len(response.entries)} entries were answered of {len(items)}"
            return [PopMQClientError(text)] * len(items)
    except PopMQClientError as failed:
        return [failed] * len(items)
    return [
        done(entry) if entry.status.code == v2.OK else error_of(entry.status)
        for entry in response.entries
    ]
