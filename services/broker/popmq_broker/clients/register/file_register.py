"""A register in a folder: for tests, and for several replicas on one machine.

    record          `HEAD`, the version in decimal and a newline, then the value's bytes
    alive/REPLICA   boot id, deadline in nanoseconds of `boot_ns`: of a heartbeat
    lock            nothing; whoever swaps locks it with flock, whoever reads shares it

A record is replaced as a whole and is on disk before anybody is told of it, readers included.
Heartbeats are measured by the clock of one machine, which goes on while the machine sleeps. The
boot id tells that clock from the one of another machine and from the one before a restart, so a
folder that several machines share does not work: nobody sees the others alive.
"""

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from popmq_broker.clients.register.register import (
    CALL_S,
    TTL_S_MAX,
    Seen,
    checked_name,
    checked_ttl_s,
    checked_value,
)
from popmq_common.errors import RegisterUnreachable
from popmq_common.process.private_files import make_folder, opened_privately

HEAD: Final = b"popmq register 1\n"
POLL_S: Final = 0.05
LOCK_LOOK_S: Final = 0.002
LOCK_WAIT_S: Final = 0.75 * CALL_S
"""The rest is for the disk."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NS: Final = 1_000_000_000
T = TypeVar("T")


class _Damaged(Exception):
    """The record is not what was written."""


class _Record(NamedTuple):
    value: bytes | None
    version: int


def boot_ns() -> int:
    """Since the machine started, its sleep included where the system counts it."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class FileRegister:
    def __init__(self, folder: Path, now_ns: Callable[[], int] = boot_ns) -> None:
        """`folder` is the group's own, and is made if it is not there. Raises `OSError`."""
        make_folder(folder / "alive")
        self._folder = folder
        self._now_ns = now_ns
        self._boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "-"

    async def read(self) -> Seen:
        return await self._call(self._read)

    async def swap(self, version: int, value: bytes) -> int | None:
        checked_value(value)
        return await self._call(lambda end_s: self._swap(version, value, end_s))

    async def wait(self, seen: Seen, timeout_s: float) -> Seen:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while True:
            # without the lock, so it may not be on disk yet
            if await self._call(lambda _: self._look()) != seen:
                now = await self.read()
                if now != seen:
                    return now
            left_s = end_s - loop.time()
            if left_s <= 0:
                return seen
            await asyncio.sleep(min(POLL_S, left_s))

    async def heartbeat(self, replica: str, ttl_s: float) -> None:
        checked_name("replica", replica)
        ttl_ns = int(checked_ttl_s(ttl_s) * _NS)
        await self._call(lambda _: self._heartbeat(replica, ttl_ns))

    async def leave(self, replica: str) -> None:
        checked_name("replica", replica)
        await self._call(lambda _: (self._folder / "alive" / replica).unlink(missing_ok=True))

    async def close(self) -> None:
        pass  # each call opens its own files

    async def _call(self, act: Callable[[float], T]) -> T:
        """`act` in a thread; it gets the time, in seconds of `time.monotonic`, by which it must
        have begun to change anything. A disk that hangs keeps the thread, not the caller."""
        end_s = time.monotonic() + LOCK_WAIT_S
        try:
            async with asyncio.timeout(CALL_S):
                return await asyncio.to_thread(act, end_s)
        except TimeoutError as late:
            reason = str(late) or f"the disk, or every thread, was busy for {CALL_S:g} s"
            raise RegisterUnreachable(register=self._folder, reason=reason) from late
        except (OSError, _Damaged) as wrong:
            raise RegisterUnreachable(register=self._folder, reason=wrong) from wrong

    def _read(self, end_s: float) -> Seen:
        with self._locked(fcntl.LOCK_SH, end_s):
            seen = self._look()
            _sync_folder(self._folder)  # whoever swapped may have died before it had done so
            return seen

    def _swap(self, version: int, value: bytes, end_s: float) -> int | None:
        with self._locked(fcntl.LOCK_EX, end_s):
            if self._record().version != version:
                _sync_folder(self._folder)
                return None
            new = self._folder / ".record"
            _write(new, HEAD + b"%d\n" % (version + 1) + value, durable=True)
            new.replace(self._folder / "record")
            _sync_folder(self._folder)
            return version + 1

    def _heartbeat(self, replica: str, ttl_ns: int) -> None:
        folder = self._folder / "alive"
        new = folder / f".{replica}.{os.getpid()}.{threading.get_native_id()}"
        _write(new, f"{self._boot} {self._now_ns() + ttl_ns}".encode(), durable=False)
        new.replace(folder / replica)

    @contextmanager
    def _locked(self, kind: int, end_s: float) -> Iterator[None]:
        """A process that dies gives its lock back. Raises `TimeoutError`."""
        with open(self._folder / "lock", "ab", opener=opened_privately) as lock:
            while True:
                if time.monotonic() >= end_s:
                    raise TimeoutError("another process holds its lock")
                with suppress(BlockingIOError):
                    fcntl.flock(lock, kind | fcntl.LOCK_NB)
                    break
                time.sleep(LOCK_LOOK_S)
            yield

    def _look(self) -> Seen:
        record = self._record()
        names = [name for name in os.listdir(self._folder / "alive") if not name.startswith(".")]
        return Seen(*record, frozenset(filter(self._is_alive, names)))

    def _record(self) -> _Record:
        try:
            found = (self._folder / "record").read_bytes()
        except FileNotFoundError:
            return _Record(None, 0)
        number, _, value = found.removeprefix(HEAD).partition(b"\n")
        if not found.startswith(HEAD) or not number.isdigit():
            raise _Damaged(f"{self._folder / 'record'} is damaged: it has no version")
        return _Record(value, int(number))

    def _is_alive(self, replica: str) -> bool:
        try:
            boot, _, deadline = (self._folder / "alive" / replica).read_text().partition(" ")
        except FileNotFoundError:  # it has left since
            return False
        left_ns = int(deadline) - self._now_ns() if deadline.isdigit() else 0
        return boot == self._boot and 0 < left_ns <= TTL_S_MAX * _NS


def _write(path: Path, content: bytes, *, durable: bool) -> None:
    with open(path, "wb", opener=opened_privately) as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
