"""The disk of a replica: what was written, what is synced, and what a crash leaves.

The log is a file of records, each with a checksum over its place and its bytes:

    [size 1][id 4][padding][crc 4]

A crash of the process loses nothing that was written. A loss of power keeps what was synced, and of
each write since any part: all, nothing, its beginning or its end.
"""

import random
from dataclasses import dataclass, field
from zlib import crc32

from replication_sim.loop import Loop, Pause, Wake

from popmq_broker.core.replication.epochs import Epochs

SIZES = (10, 10, 10, 15)
"""Bytes of a record; mostly equal, so that what is left of an old one fits behind a new one."""


def record(at: int, number: int, size: int) -> bytes:
    body = bytes([size]) + number.to_bytes(4) + bytes(size - 9)
    return body + crc32(body, at).to_bytes(4)


def number_of(log: bytes | bytearray, at: int) -> int:
    """The id of the record that begins there."""
    return int.from_bytes(log[at + 1 : at + 5])


def whole_end(log: bytes | bytearray, start: int, end: int) -> int:
    """Where the last whole record that ends before or at `end` ends; a record begins at `start`."""
    at, end = start, min(end, len(log))
    while at < end:
        size = log[at]
        if size < 9 or at + size > end:
            break
        body = bytes(log[at : at + size - 4])
        if crc32(body, at).to_bytes(4) != log[at + size - 4 : at + size]:
            break
        at += size
    return at


@dataclass(frozen=True, slots=True)
class Meta:
    """Small files; each replaced as a whole."""

    incarnation: str = ""
    identity: str = ""
    epochs: Epochs = field(default_factory=Epochs)
    log_start: int = 0


class Disk:
    def __init__(self, loop: Loop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self.log = bytearray()
        """As the process reads it."""
        self.durable = bytearray()
        self.meta = Meta()
        self.slow_factor = 1
        self.wiped = False
        self.locked = False
        """A process works with it."""
        self.shown_end = 0
        """The judge's: what of it was shown."""
        self.followed_epoch = 0
        """The judge's: the highest epoch that it has followed."""
        self._unsynced: list[tuple[int, bytes]] = []
        self._written = 0
        """Writes so far; the last ones of them are `_unsynced`."""
        self._persisting: list[Meta] = []
        self._persisted_by = 0
        """When the last of them is done: they are replaced one after the other."""
        self._power = self._owner = 0
        """Of losses of power and of processes: what was on its way then never arrives."""

    @property
    def start(self) -> int:
        return self.meta.log_start

    def write(self, at: int, data: bytes) -> None:
        _put(self.log, at, data)
        self._unsynced.append((at, data))
        self._written += 1

    def zero_from(self, at: int) -> None:
        if at < len(self.log):
            self.write(at, bytes(len(self.log) - at))

    def sync(self) -> Pause:
        """What was written before the call is durable when it is over."""

        def arm(wake: Wake) -> None:
            self._loop.after(self._delay(), self._synced, self._written, self._power, wake)

        return Pause(arm)

    def persist(self, meta: Meta) -> Pause:
        """Replace the small files; the new ones are durable when it is over."""

        def arm(wake: Wake) -> None:
            self._persisting.append(meta)
            now = self._loop.now
            self._persisted_by = max(now, self._persisted_by) + self._delay()
            self._loop.after(self._persisted_by - now, self._persisted, self._owner, wake)

        return Pause(arm)

    def process_ended(self) -> None:
        """A file that was being replaced is the new one or the old one."""
        self._owner += 1
        if self._persisting and self._rng.random() < 0.5:
            self.meta = self._persisting[0]
        self._persisting.clear()
        self.locked = False

    def lose_power(self) -> None:
        """The process has ended."""
        self._power += 1
        for at, data in self._unsynced:
            kind = self._rng.random()
            if kind < 0.4:
                _put(self.durable, at, data)
            elif kind < 0.7:
                part = self._rng.randrange(len(data) + 1)
                if kind < 0.6:
                    _put(self.durable, at, data[:part])
                else:
                    _put(self.durable, at + part, data[part:])
        self._unsynced.clear()
        self.log[:] = self.durable

    def _delay(self) -> int:
        return self._rng.randrange(300, 6_000) * self.slow_factor

    def _synced(self, written: int, power: int, wake: Wake) -> None:
        if power != self._power:
            return
        count = max(0, len(self._unsynced) - (self._written - written))
        for at, data in self._unsynced[:count]:
            _put(self.durable, at, data)
        del self._unsynced[:count]
        wake(None)

    def _persisted(self, owner: int, wake: Wake) -> None:
        if owner == self._owner:
            self.meta = self._persisting.pop(0)
            wake(None)


def _put(log: bytearray, at: int, data: bytes) -> None:
    if len(log) < at:
        log.extend(bytes(at - len(log)))
    log[at : at + len(data)] = data
