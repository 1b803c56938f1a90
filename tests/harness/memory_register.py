"""A register in memory, whose faults a test asks for. Its time is the running loop's.

What all replicas of a group share is a `RegisterCell`; each replica has a `MemoryRegister` on it,
with faults of its own:

    reachable = False        every call fails, waits too, until it is True again
    lose_next = Lost.ANSWER  the next swap happens, and fails
    delay_s                  between a call and its effect, and between that and the answer
"""

import asyncio
from enum import Enum, auto

from popmq_broker.clients.register.register import (
    CALL_S,
    Seen,
    checked_name,
    checked_ttl_s,
    checked_value,
)
from popmq_common.errors import RegisterUnreachable


class Lost(Enum):
    """Of one swap."""

    REQUEST = auto()
    """It does not happen."""
    ANSWER = auto()
    """It happens, if the version is right."""


class RegisterCell:
    """One group's record and heartbeats."""

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.version = 0
        self.deadlines: dict[str, float] = {}
        """Of heartbeats, in seconds of the loop's time."""
        self._changed = asyncio.Event()

    def seen(self, now_s: float) -> Seen:
        alive = frozenset(name for name, end_s in self.deadlines.items() if end_s > now_s)
        return Seen(self.value, self.version, alive)

    def swap(self, version: int, value: bytes) -> int | None:
        if version != self.version:
            return None
        self.value, self.version = value, version + 1
        self.wake()
        return self.version

    def wake(self) -> None:
        """All that wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, timeout_s: float) -> None:
        """Return when something may have changed, heartbeats that run out included."""
        now_s = asyncio.get_running_loop().time()
        ends_s = [end_s - now_s for end_s in self.deadlines.values() if end_s > now_s]
        try:
            async with asyncio.timeout(min([timeout_s, *ends_s])):
                await self._changed.wait()
        except TimeoutError:
            pass


class MemoryRegister:
    def __init__(self, cell: RegisterCell, name: str = "memory") -> None:
        self.lose_next: Lost | None = None
        self.delay_s = 0.0
        self._cell = cell
        self._name = name
        self._reachable = True

    @property
    def reachable(self) -> bool:
        return self._reachable

    @reachable.setter
    def reachable(self, reachable: bool) -> None:
        self._reachable = reachable
        self._cell.wake()  # a wait fails, as its connection does

    async def read(self) -> Seen:
        await self._pass()
        seen = self._cell.seen(self._now_s())
        await self._pass()
        return seen

    async def swap(self, version: int, value: bytes) -> int | None:
        checked_value(value)
        lost, self.lose_next = self.lose_next, None
        await self._pass()
        if lost is Lost.REQUEST:
            raise self._unreachable("the request was lost")
        new = self._cell.swap(version, value)
        if lost is Lost.ANSWER:
            raise self._unreachable("the answer was lost")
        await self._pass()
        return new

    async def wait(self, seen: Seen, timeout_s: float) -> Seen:
        end_s = self._now_s() + timeout_s
        while True:
            await self._pass()
            now = self._cell.seen(self._now_s())
            left_s = end_s - self._now_s()
            if now != seen or left_s <= 0:
                return now
            await self._cell.change(left_s)

    async def heartbeat(self, replica: str, ttl_s: float) -> None:
        checked_name("replica", replica)
        checked_ttl_s(ttl_s)
        await self._pass()
        self._cell.deadlines[replica] = self._now_s() + ttl_s
        self._cell.wake()
        await self._pass()

    async def leave(self, replica: str) -> None:
        checked_name("replica", replica)
        await self._pass()
        self._cell.deadlines.pop(replica, None)
        self._cell.wake()
        await self._pass()

    async def close(self) -> None:
        pass  # there is nothing to close

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _pass(self) -> None:
        """One way between a replica and the register."""
        if self.delay_s:
            await asyncio.sleep(min(self.delay_s, CALL_S / 2))
        if not self._reachable:
            raise self._unreachable("it is cut off")

    def _unreachable(self, reason: str) -> RegisterUnreachable:
        return RegisterUnreachable(register=self._name, reason=reason)
