"""Fair scheduling of connections: which one works next, and for how long.

What a connection has to do in one turn of the loop ends after `SLICE_S`; all of them together may
take `TURN_S`. Who is not done, or came too late, goes on in a later turn: first who had least of
the last second, by addresses and then by connections, then in each turn the one who waits longest.
So who sends little hardly waits for who sends much, however many those are.

While nobody has too much to do this costs two readings of the clock for each chunk that came.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from time import monotonic
from typing import Final

SLICE_S: Final = 0.001
TURN_S: Final = 0.002
WAITING_S: Final = 0.001
"""Of `TURN_S`, for those who waited; what comes just now has the rest."""
CARRIED_S: Final = 0.000_5
"""Of `TURN_S`: less than that may have been used in earlier turns. So turns with little work need
not be told apart, which would take a callback in each of them."""
SECOND_S: Final = 1.0
RECENT_S: Final = 2.0
SHORT_S: Final = 0.1
LEFT_MAX: Final = 256

Work = Callable[[], None]


class Use:
    """Time that somebody had, of the second that began at `since_s`."""

    __slots__ = ("since_s", "used_s")

    def __init__(self) -> None:
        self.used_s = 0.0
        self.since_s = 0.0

    def recent_s(self, now_s: float) -> float:
        """Of a second, on average since `since_s`; 0 when that is long ago."""
        passed_s = now_s - self.since_s
        return 0.0 if passed_s > RECENT_S else self.used_s / max(passed_s, SHORT_S)


class ConnectionWorker:
    """Somebody who may have more to do than fits into a turn."""

    __slots__ = ("abort", "address_use", "number", "owed_s", "use", "work")

    def __init__(self, work: Work, abort: Work, address_use: Use) -> None:
        """`work` does some of it, for `SLICE_S` at most, and waits again if that was not all."""
        self.work = work
        self.abort = abort
        self.use = Use()
        self.address_use = address_use
        self.owed_s = 0.0
        """What was begun in this slice and will take its time later in the turn."""
        self.number = 0
        """By which it waits; 0: it does not."""

    def fail(self, bug: Exception) -> None:
        """Nothing of it can be relied on any more; the others go on."""
        found = {"message": "a connection has failed", "exception": bug}
        asyncio.get_running_loop().call_exception_handler(found)
        self.abort()

    def part(self) -> None:
        """Let go of whose work it does."""
        self.work = self.abort = _nothing


class Scheduler:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spent_s = 0.0
        self._count = 0
        self._waiting_count = 0
        self._by_use: list[tuple[float, float, int, ConnectionWorker]] = []
        self._by_time: deque[tuple[int, ConnectionWorker]] = deque()
        self._scheduled = False

    @property
    def is_over(self) -> bool:
        """This turn has no time left."""
        return self._spent_s >= TURN_S

    def charge(self, worker: ConnectionWorker, now_s: float, seconds: float) -> None:
        """So much was used for it in this turn."""
        for use in (worker.use, worker.address_use):
            if now_s - use.since_s > SECOND_S:
                use.since_s = now_s
                use.used_s = seconds
            else:
                use.used_s += seconds
        self._spent_s += seconds
        if self._spent_s >= CARRIED_S:
            self._schedule()

    def wait(self, worker: ConnectionWorker) -> None:
        """`worker` is called in a later turn, once."""
        if worker.number:
            return
        self._count += 1
        self._waiting_count += 1
        worker.number = self._count
        self._push(worker)
        self._by_time.append((worker.number, worker))
        self._schedule()

    def _push(self, worker: ConnectionWorker) -> None:
        entry = (worker.address_use.used_s, worker.use.used_s, worker.number, worker)
        heappush(self._by_use, entry)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._scheduled = False
        self._spent_s = 0.0
        if not self._waiting_count:
            return
        oldest = self._oldest()
        until_s = monotonic() + WAITING_S
        while self._by_use and self._spent_s < WAITING_S and monotonic() < until_s:
            of_address_s, own_s, number, worker = heappop(self._by_use)
            if worker.number != number:
                continue
            if (worker.address_use.used_s, worker.use.used_s) > (of_address_s, own_s):
                self._push(worker)  # it had more since, or others of its address had
            else:
                self._run(worker)
        if oldest is not None and oldest[1].number == oldest[0]:
            self._run(oldest[1])
        if self._waiting_count:
            self._schedule()
        if len(self._by_use) + len(self._by_time) > 4 * self._waiting_count + LEFT_MAX:
            self._forget_left()

    def _oldest(self) -> tuple[int, ConnectionWorker] | None:
        """Who waits longest, and by which number."""
        while self._by_time:
            number, worker = self._by_time.popleft()
            if worker.number == number:
                return number, worker
        return None

    def _run(self, worker: ConnectionWorker) -> None:
        worker.number = 0
        self._waiting_count -= 1
        try:
            worker.work()
        except Exception as bug:  # or all that wait would wait for ever
            worker.fail(bug)

    def _forget_left(self) -> None:
        """Who was called by one order is left in the other one."""
        self._by_use = [entry for entry in self._by_use if entry[3].number == entry[2]]
        heapify(self._by_use)
        self._by_time = deque(entry for entry in self._by_time if entry[1].number == entry[0])


def _nothing() -> None:
    return
