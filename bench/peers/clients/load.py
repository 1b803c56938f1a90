"""The load that a client process puts on its end; the same for all."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from peers.clients.end import End, body, stamp
from peers.judge import Run, runs_of

AFTER_ERROR_S: Final = 0.05
IDLE_S: Final = 2.0
"""When nothing came for so long, a receive ends."""
WATCH_S: Final = 0.05


class Tally:
    """What a client process did since a load began."""

    def __init__(self) -> None:
        self.confirmed: list[int] = []
        self.received: defaultdict[int, list[int]] = defaultdict(list)
        self.latencies_us: list[int] = []
        self.errors: Counter[str] = Counter()
        self.began_ns = self.last_ns = time.monotonic_ns()
        self._began_cpu_s = time.process_time()

    def answer(self, process: int) -> dict[str, Any]:
        received: list[Run] = []
        for sender, numbers in self.received.items():
            received += runs_of(sender, numbers)
        return {
            "confirmed": runs_of(process, self.confirmed),
            "received": received,
            "latencies_us": self.latencies_us,
            "errors": dict(self.errors),
            "began_ns": self.began_ns,
            "last_ns": self.last_ns,
            "cpu_s": time.process_time() - self._began_cpu_s,
        }


class Process:
    def __init__(self, end: End, number: int) -> None:
        self._end, self._number = end, number
        self._next = 0

    def _body(self) -> tuple[int, bytes]:
        self._next += 1
        return self._next, body(self._number, self._next)

    async def send(
        self, seconds: float, in_flight: int, batch: int, count_max: int
    ) -> dict[str, Any]:
        """Until the time is over or so many were begun."""
        tally, until = Tally(), time.monotonic() + seconds
        last = self._next + count_max

        async def repeat() -> None:
            while time.monotonic() < until and self._next < last:
                made = [self._body() for _ in range(batch)]
                bodies = [one for _, one in made]
                sending = self._end.send(bodies[0]) if batch == 1 else self._end.send_many(bodies)
                await self._confirm(tally, [number for number, _ in made], sending)

        await asyncio.gather(*(repeat() for _ in range(in_flight)))
        return tally.answer(self._number)

    async def _confirm(self, tally: Tally, numbers: list[int], sending: Awaitable[None]) -> None:
        began_ns = time.monotonic_ns()
        try:
            await sending
        except Exception as failed:
            tally.errors[type(failed).__name__] += 1
            await asyncio.sleep(AFTER_ERROR_S)
            return
        tally.last_ns = time.monotonic_ns()
        tally.latencies_us.append((tally.last_ns - began_ns) // 1000)
        tally.confirmed += numbers

    async def receive(self) -> dict[str, Any]:
        """Until nothing comes any more."""
        tally = Tally()
        await self._receive(tally, lambda: True)
        return tally.answer(self._number)

    async def _receive(
        self, tally: Tally, may_end: Callable[[], bool], *, steady: bool = False
    ) -> None:
        over = asyncio.Event()
        watching = asyncio.create_task(_watch(tally, may_end, over))
        await self._end.receive(_taker(tally, timed=steady), over, steady=steady)
        await watching

    async def both(self, seconds: float, rate_per_s: float) -> dict[str, Any]:
        """Sends at a rate and receives at the same time; latencies are from send to receive."""
        sent, tally = Tally(), Tally()
        under_way: set[asyncio.Task[None]] = set()

        async def pace() -> None:
            began_s, count = time.monotonic(), int(seconds * rate_per_s)
            for turn in range(count):
                wait_s = began_s + turn / rate_per_s - time.monotonic()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                number, made = self._body()
                task = asyncio.create_task(self._confirm(sent, [number], self._end.send(made)))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await asyncio.gather(*under_way)

        pacing = asyncio.create_task(pace())
        await self._receive(tally, pacing.done, steady=True)
        await pacing
        tally.confirmed = sent.confirmed
        tally.errors.update(sent.errors)
        return tally.answer(self._number)


def _taker(tally: Tally, *, timed: bool) -> Callable[[bytes], None]:
    def take(received: bytes) -> None:
        tally.last_ns = time.monotonic_ns()
        try:
            found = stamp(received)
        except ValueError as failed:
            tally.errors[str(failed)] += 1
            return
        tally.received[found.process].append(found.number)
        if timed:
            tally.latencies_us.append((tally.last_ns - found.sent_ns) // 1000)

    return take


async def _watch(tally: Tally, may_end: Callable[[], bool], over: asyncio.Event) -> None:
    while not may_end() or time.monotonic_ns() - tally.last_ns < IDLE_S * 1e9:  # noqa: ASYNC110
        await asyncio.sleep(WATCH_S)  # a message would have to set an event each time
    over.set()
