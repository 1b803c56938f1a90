"""One request for many entries, asked again for those that may yet be done."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from popmq.connection import BACKOFF
from popmq.errors import BrokerUnavailable, PopMQClientError, check

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
    results: list[Result | Exception] = []
    left = list(range(len(items)))
    deadline = time.monotonic() + patience_s
    failures = 0
    while True:
        found = await _once([items[i] for i in left], ask, done)
        if not results:
            results = found
        for i, result in zip(left, found, strict=True):
            results[i] = result
        left = [i for i in left if getattr(results[i], "retriable", False)]
        if not left or time.monotonic() >= deadline:
            return results
        failures += 1
        await asyncio.sleep(BACKOFF.after(failures, random.random()))
        if any(isinstance(results[i], BrokerUnavailable) for i in left):
            elsewhere()


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
    return [_result(entry, done) for entry in response.entries]


def _result(entry: Any, done: Callable[[Any], Result]) -> Result | Exception:
    try:
        check(entry.status)
    except PopMQClientError as refused:
        return refused
    return done(entry)
