"""The register: compare and set, and hearts that beat. It never errs; its answers may be old."""

from dataclasses import dataclass

from replication_sim.judge import Judge
from replication_sim.loop import Loop

from popmq_broker.core.replication.group_record import GroupRecord, decode, encode


@dataclass(frozen=True, slots=True)
class View:
    record: GroupRecord | None
    version: int
    alive: frozenset[str]


class Register:
    def __init__(self, loop: Loop, judge: Judge) -> None:
        self._loop = loop
        self._judge = judge
        self._value: bytes | None = None
        self.record: GroupRecord | None = None
        self.version = 0
        self.clock_offset = 0
        """Microseconds; a jump ends all that beats."""
        self._asked: list[tuple[int, GroupRecord]] = []
        self._beats: dict[str, int] = {}
        self._past: list[View] = []

    def beat(self, heart: str, lasts: int) -> None:
        self._beats[heart] = self._loop.now + self.clock_offset + lasts

    def read(self) -> View:
        now = self._loop.now + self.clock_offset
        alive = frozenset(heart for heart, until in self._beats.items() if until > now)
        view = View(self.record, self.version, alive)
        self._past = [*self._past[-30:], view]
        return view

    def read_old(self, back: int) -> View:
        """What a member of the register that lags behind may answer."""
        return self._past[-min(back, len(self._past))] if self._past else self.read()

    def asked(self, version: int, record: GroupRecord) -> None:
        """Somebody has sent a swap, which may arrive."""
        self._asked.append((version, record))

    def possible(self) -> list[GroupRecord]:
        """What it holds now, and what it may hold after the next swap."""
        self._asked = [one for one in self._asked if one[0] == self.version]
        now = [self.record] if self.record is not None else []
        return now + [record for _, record in self._asked]

    def swap(self, version: int, record: GroupRecord) -> int | None:
        """The version now; None: refused."""
        if version != self.version:
            return None
        self._judge.swapped(self.record, record)
        self._value = encode(record)
        self.record = decode(self._value, where="register")
        assert self.record == record
        self.version += 1
        return self.version
