"""A replica: what it finds at its start, and its role, by the register."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replication_sim.disk import SIZES, Disk, record, whole_end
from replication_sim.following import FollowerRole
from replication_sim.leading import PrimaryRole
from replication_sim.loop import MS, Wake
from replication_sim.process import Process
from replication_sim.register import View

from popmq_broker.core.replication.election import (
    Candidate,
    Role,
    founding,
    heart,
    next_epoch,
    role_of,
)
from popmq_broker.core.replication.epochs import Epochs, EpochStart
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_common.errors import PopMQError, StaleEpoch

if TYPE_CHECKING:
    from replication_sim.world import World

LOOK = 100 * MS
BEAT = 200 * MS
LEASE = 600 * MS


class Replica(Process):
    def __init__(self, world: "World", name: str, run: str, disk: Disk) -> None:
        super().__init__(world, name, run)
        self.disk = disk
        self.meta = disk.meta
        self.log_end = self.durable_end = self.shown_end = 0
        """`shown_end`: of what this run knows."""
        self.stopping = False
        self._changing = False
        """The directory is being changed: when that was cut short, it must be read again."""
        self.role: PrimaryRole | FollowerRole | None = None
        self._grown = self.signal()

    async def live(self) -> None:
        self.disk.locked = True
        self.spawn(self._beat())
        await self._recover()
        while not self.stopping:
            if self._changing:
                await self._recover()
            await self._look()
            await self.sleep(LOOK)
        await self._take_leave()

    async def _take_leave(self) -> None:
        """Its primary need not find out by itself that this replica stops; also its successor."""
        while True:
            view = await self.look()
            record = view.record if view is not None else None
            if record is not None and record.primary != self.name:
                me, epochs = self.meta.incarnation, self.meta.epochs
                await self.persist(epochs=epochs.promise(max(record.epoch, epochs.promised)))
                hello = self.name, me, record.epoch, epochs, self.log_end, self.durable_end
                answer = await self.call(record.primary, "hello", *hello)
                if answer is not None and not isinstance(answer, PopMQError):
                    self.tell(record.primary, "leave", self.name, answer[0])
                    return
            await self.sleep(LOOK)

    async def _recover(self) -> None:
        """The log up to its last whole record; what is behind is gone, on disk."""
        self.log_end = whole_end(self.disk.log, self.meta.log_start, len(self.disk.log))
        self.disk.zero_from(self.log_end)
        await self.disk.sync()
        self.durable_end = self.log_end
        self.shown_end = self._remembered_end()
        await self.persist(epochs=self.meta.epochs.cut(self.log_end + 1))
        self._changing = False
        self.world.judge.restarted(self.run_name, self.log_end, self.disk)

    def _remembered_end(self) -> int:
        """Up to where the queues on disk go: what was shown, or less."""
        start, end = self.meta.log_start, self.disk.shown_end
        if end > start and self.world.rng.random() < 0.5:
            end = self.world.rng.randrange(start, end)
        return max(start, self.whole_from_start(end))

    async def _beat(self) -> None:
        while True:
            if not self.stopping:
                self.beat(heart(self.name, self.meta.incarnation), LEASE)
            await self.sleep(BEAT)

    # --- its role ---

    async def look(self) -> View | None:
        view: View | None = await self.read_register()
        return view

    def me(self) -> Candidate:
        meta = self.meta
        return Candidate(self.name, meta.incarnation, f"{self.name}:1", meta.identity)

    def role_by(self, view: View) -> Role:
        me, promised = self.me(), self.meta.epochs.promised
        return role_of(me, view.record, view.alive, promised)[0]

    async def _look(self) -> None:
        view = await self.look()
        if view is None:
            return
        role = self.role_by(view)
        if role is Role.FOUND:
            await self._found(view)
        elif role is Role.LEAD:
            await self._lead(view)
        elif role is Role.FOLLOW:
            assert view.record is not None
            await self._play(FollowerRole(self, view.record))

    async def _found(self, view: View) -> None:
        if self.name in self.world.founders:
            identity = self.meta.identity or f"data of {self.meta.incarnation}"
            record = founding(self.me(), identity, self.world.min_in_sync, self.now_ms)
            await self._promote(view, record)

    async def _lead(self, view: View) -> None:
        assert view.record is not None
        await self._promote(view, next_epoch(self.me(), view.record, view.alive, self.now_ms))

    async def _promote(self, view: View, record: GroupRecord) -> None:
        answer = await self.swap_register(view.version, record)
        if answer is None or answer[0] is None:
            return  # refused, or nobody knows: the register is looked at again
        epochs = self.meta.epochs.begun(record.epoch, self.log_end)
        await self.persist(epochs=epochs, identity=record.identity)
        self.world.judge.began(self.run_name, record.epoch, self.disk)
        self.append()
        await self._play(PrimaryRole(self, record, answer[0]))

    async def _play(self, role: "PrimaryRole | FollowerRole") -> None:
        self.role = role
        await role.play()
        role.close()
        self.role = None

    # --- its log ---

    def append(self, number: int | None = None) -> tuple[int, bytes]:
        """A message with this id; none: the first record of an epoch."""
        if number is None:
            number = self.world.next_number()
        data = record(self.log_end, number, self.world.rng.choice(SIZES))
        at = self.log_end
        self.world.judge.appends(number, at, max(self.disk.start, self.meta.log_start))
        self.write(data)
        return at, data

    def write(self, data: bytes) -> None:
        self.disk.write(self.log_end, data)
        self.log_end += len(data)
        self._grown.set()

    async def sync(self) -> int:
        """The end of what is on disk now. A role that ends takes its sync along: what was cut since
        must not count."""
        end = self.log_end
        await self.disk.sync()
        self.durable_end = max(self.durable_end, end)
        return end

    async def cut(self, end: int) -> None:
        """First the bytes, then the epochs: both are on disk when it is over."""
        self._changing = True
        self.world.judge.cut(self.run_name, end, self.disk)
        self.log_end = self.durable_end = end
        self.disk.zero_from(end)
        await self.disk.sync()
        await self.persist(epochs=self.meta.epochs.cut(end))
        self._changing = False

    async def begin_anew(self, start: int, theirs: Sequence[EpochStart]) -> None:
        """Nothing of the log is kept; it goes on at `start`, as another directory."""
        self._changing = True
        self.world.judge.emptied(self.run_name, self.disk)
        incarnation = self.world.new_incarnation(self.name, self.disk)
        await self.persist(incarnation=incarnation)
        self.log_end = self.durable_end = self.shown_end = start
        self.disk.zero_from(0)
        await self.disk.sync()
        known = tuple(one for one in theirs if one.start <= start)
        await self.persist(epochs=Epochs(self.meta.epochs.promised, known), log_start=start)
        self._changing = False

    async def persist(self, **changes: Any) -> None:
        self.meta = replace(self.meta, **changes)
        await self.disk.persist(self.meta)

    def grown(self, timeout: int) -> Any:
        return self._grown.wait(timeout)

    def whole_from_start(self, end: int) -> int:
        return whole_end(self.disk.log, self.meta.log_start, end)

    # --- calls of others ---

    def primary_role(self) -> PrimaryRole:
        """Raises `StaleEpoch`."""
        if not isinstance(self.role, PrimaryRole):
            raise StaleEpoch(replica=self.name, epoch="none", now="unknown")
        return self.role

    def hello(self, reply: Wake, *args: Any) -> None:
        self.primary_role().hello(reply, *args)

    def fetch(self, reply: Wake, *args: Any) -> None:
        self.primary_role().fetch(reply, *args)

    def leave(self, _: Wake, *args: Any) -> None:
        self.primary_role().primary.left(*args)

    def ack(self, _: Wake, *args: Any) -> None:
        self.primary_role().ack(*args)

    def send(self, reply: Wake, number: int) -> None:
        self.primary_role().send(reply, number)
