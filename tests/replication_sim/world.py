"""Replicas with their disks, the register, the network, and clients that append."""

import random
from collections import deque
from dataclasses import replace
from typing import Any

from replication_sim.disk import Disk
from replication_sim.judge import Judge
from replication_sim.leading import PrimaryRole
from replication_sim.loop import MS, SECOND, Loop, Wake
from replication_sim.network import Network
from replication_sim.register import Register
from replication_sim.replica import Replica

CLIENT = "client"
NAMES = ("a", "b", "c")
REPEATED = 0.3
"""Share of the sends that are tried once more."""
REPEATED_MAX = 40
"""Of the newest messages, which are sent again."""


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = Loop(self.rng)
        self.judge = Judge()
        self.network = Network(self.loop, self.rng)
        self.register = Register(self.loop, self.judge)
        count = self.rng.choice((2, 3, 3, 3))
        self.names = NAMES[:count]
        self.min_in_sync = self.rng.choice((1, 2, 2))
        self.founders = self.names[: self.rng.choice((1, count))]
        self.old_reads = 0.0
        """Share of the register's answers that are old."""
        self.send_every = self.rng.choice((8, 30, 100)) * MS
        self.fetch_bytes = self.rng.choice((24, 64, 400))
        self.disks: dict[str, Disk] = {}
        self.running: dict[str, Replica] = {}
        self.doubles: list[Replica] = []
        """Second processes with a directory that has one."""
        self._runs = self._incarnations = self._numbers = 0
        self._sends: deque[int] = deque(maxlen=REPEATED_MAX)
        for name in self.names:
            self.new_disk(name)
            self.start(name)
        self._send()

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # --- processes and disks ---

    def new_disk(self, name: str) -> None:
        disk = self.disks[name] = Disk(self.loop, self.rng)
        disk.meta = replace(disk.meta, incarnation=self.new_incarnation(name, disk))

    def new_incarnation(self, name: str, disk: Disk) -> str:
        self._incarnations += 1
        incarnation = f"{name}{self._incarnations}"
        self.judge.disks[incarnation] = disk
        return incarnation

    def start(self, name: str) -> None:
        """Nothing happens where one runs already: the directory is locked."""
        if name in self.running or self.disks[name].locked:
            return
        self.running[name] = self._process(name)

    def start_second(self, name: str) -> None:
        if name in self.running and not self.disks[name].locked:
            self.doubles.append(self._process(name))

    def _process(self, name: str) -> Replica:
        self._runs += 1
        replica = Replica(self, name, f"{name}#{self._runs}", self.disks[name])
        replica.spawn(replica.live())
        return replica

    def kill(self, name: str, *, power: bool) -> None:
        replica = self.running.pop(name, None)
        if replica is None:
            return
        for one in [replica, *(double for double in self.doubles if double.name == name)]:
            one.end()
        self.doubles = [double for double in self.doubles if double.name != name]
        self.disks[name].process_ended()
        if power:
            self.disks[name].lose_power()

    def may_be_wiped(self, name: str) -> bool:
        """Another member has all that is committed, whatever becomes of what is on its way."""
        records = self.register.possible()
        if self.register.record is None:
            return False
        return all(self._has_other(one.in_sync, name) for one in records) and (
            self.register.record.min_in_sync > 1 or len(records) == 1
        )

    def _has_other(self, in_sync: Any, name: str) -> bool:
        return any(
            replica != name and not self.judge.disks[incarnation].wiped
            for replica, incarnation in in_sync.items()
        )

    def wipe(self, name: str) -> None:
        self.kill(name, power=True)
        self.disks[name].wiped = True
        self.new_disk(name)

    # --- messages ---

    def deliver(self, end: str, method: str, start: str, wake: Wake, args: tuple[Any, ...]) -> None:
        replica = self.running.get(end)
        if replica is not None:
            replica.run(replica.handle, method, start, wake, args)

    def _send(self) -> None:
        """A client's next message, to whoever says that it is primary, deposed or not."""
        self.loop.after(self.rng.randrange(1, 2 * self.send_every), self._send)
        number = self._next_send()
        for replica in [*self.running.values(), *self.doubles]:
            if isinstance(replica.role, PrimaryRole):
                self.network.send(CLIENT, replica.name, self._sent, replica, number)

    def _next_send(self) -> int:
        """The id of a new message, or of one that was sent a short time ago: whether its answer was
        lost or came, whoever sent it does it again."""
        if self._sends and self.rng.random() < REPEATED:
            return self.rng.choice(self._sends)
        number = self.next_number()
        self._sends.append(number)
        return number

    def _sent(self, replica: Replica, number: int) -> None:
        if isinstance(replica.role, PrimaryRole):
            replica.run(replica.handle, "send", CLIENT, _ignore, (number,))

    # --- when the faults are over ---

    def heal(self) -> None:
        network = self.network
        network.blocked.clear()
        network.lost = network.doubled = network.late = self.old_reads = 0.0
        for name in self.names:
            self.disks[name].slow_factor = 1
            replica = self.running.get(name)
            if replica is not None and replica.paused:
                replica.resume()
            if replica is None or replica.stopping:
                self.kill(name, power=False)
                self.start(name)
        self.send_every = 30 * MS

    def is_whole(self) -> bool:
        """One primary, all replicas in sync with the directories that they have."""
        record = self.register.record
        if record is None:
            return False
        there = {name: self.disks[name].meta.incarnation for name in self.names}
        primary = self.running[record.primary].role
        return (
            isinstance(primary, PrimaryRole)
            and primary.primary.record.epoch == record.epoch
            and dict(record.in_sync) == there
        )

    def shown_by_all(self) -> int:
        return min(replica.shown_end for replica in self.running.values())

    def retain(self, name: str) -> None:
        """Delete the beginning of a log, up to a record that the replica has shown."""
        replica = self.running.get(name)
        if replica is None or replica.shown_end <= replica.meta.log_start:
            return
        half = (replica.meta.log_start + replica.shown_end) // 2
        start = replica.whole_from_start(half)
        if start > replica.meta.log_start:
            replica.meta = replace(replica.meta, log_start=start)
            replica.spawn(replica.persist())


def _ignore(_: Any) -> None:
    return


LATE = 60 * SECOND
