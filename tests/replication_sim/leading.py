"""A replica as primary: appends, syncs, serves fetches, keeps the set in sync in the register."""

from collections import deque
from typing import TYPE_CHECKING
from zlib import crc32

from replication_sim import known
from replication_sim.disk import whole_end
from replication_sim.loop import MS, Task, Wake
from replication_sim.register import View
from replication_sim.violation import Violation

from popmq_broker.core.replication.epochs import Epochs, EpochStart, epoch_at, split
from popmq_broker.core.replication.follower import Shipment
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.primary import Primary
from popmq_common.errors import StaleEpoch

if TYPE_CHECKING:
    from replication_sim.replica import Replica

LAG_MS = 600
TICK = 150 * MS
POLL = 100 * MS
WAITING_MAX = 50


class PrimaryRole:
    def __init__(self, replica: "Replica", record: GroupRecord, version: int) -> None:
        self._replica = replica
        self._version = version
        self._judged = 0
        self._handing: GroupRecord | None = None
        self._answers: deque[tuple[int, int, int, bytes, Wake]] = deque()
        """End, id, start and bytes of a record, and who waits for it."""
        self._polls: list[tuple[str, int, int, int, Wake]] = []
        self._told: dict[int, int] = {}
        self._tasks: list[Task] = []
        self.known = known.read(replica.disk.log, replica.meta.log_start, replica.log_end)
        self.primary = Primary(
            replica.name,
            replica.meta.incarnation,
            record,
            epoch_end=replica.log_end,
            durable_end=replica.durable_end,
            lag_ms=LAG_MS,
            now_ms=replica.now_ms,
        )

    async def play(self) -> None:
        self._tasks.append(self._replica.spawn(self._sync()))
        while True:
            await self._replica.sleep(TICK)
            view = await self._replica.look()
            if view is not None and not await self._goes_on(view):
                return

    def close(self) -> None:
        for task in self._tasks:
            task.close()

    # --- the log ---

    def send(self, reply: Wake, number: int) -> None:
        replica = self._replica
        if not self.primary.epoch_is_committed or replica.stopping:
            return
        if len(self._answers) >= WAITING_MAX:
            return
        at = self.known.find(number)
        if at is None:
            at, data = replica.append(number)
            self.known.add([number], [at], 0)
            self._answers.append((at + len(data), number, at, data, reply))
            self._serve_polls()
        else:
            self._repeated(reply, number, at)

    def _repeated(self, reply: Wake, number: int, at: int) -> None:
        """It is stored: the answer is the first place, when that is committed."""
        replica = self._replica
        data = bytes(replica.disk.log[at : at + replica.disk.log[at]])
        if at + len(data) <= replica.shown_end:
            self._answer(number, at, data, reply)
        else:  # behind those that came before it, which may end later
            self._answers.append((at + len(data), number, at, data, reply))

    def _answer(self, number: int, at: int, data: bytes, reply: Wake) -> None:
        self._replica.world.judge.answers(self._replica.run_name, number, at, data)
        reply(at)

    async def _sync(self) -> None:
        replica = self._replica
        while True:
            if replica.log_end > replica.durable_end:
                await replica.sync()
                self._committed(self.primary.synced(replica.durable_end))
            else:
                await replica.grown(POLL)

    def _committed(self, commit_point: int) -> None:
        replica, judge = self._replica, self._replica.world.judge
        if commit_point < self._judged:
            raise Violation("R3", f"{replica.run_name}: {commit_point} after {self._judged}")
        end = max(replica.shown_end, commit_point)
        if end > replica.shown_end:
            epoch = self.primary.record.epoch
            judge.commits(replica.run_name, epoch, replica.shown_end, end, replica.disk)
            replica.shown_end = end
            while self._answers and self._answers[0][0] <= end:
                _, number, at, data, reply = self._answers.popleft()
                self._answer(number, at, data, reply)
        if commit_point > self._judged:
            self._judged = commit_point
            self._serve_polls()

    # --- followers ---

    def hello(
        self,
        reply: Wake,
        name: str,
        incarnation: str,
        epoch: int,
        epochs: Epochs,
        log_end: int,
        durable_end: int,
    ) -> None:
        primary, replica = self.primary, self._replica
        if epoch != primary.record.epoch:
            raise StaleEpoch(replica=name, epoch=epoch, now=primary.record.epoch)
        at = split(replica.meta.epochs.starts, replica.log_end, epochs.starts, log_end)
        equal_end = min(at, durable_end) if at is not None else 0
        session = primary.joined(name, incarnation, f"{name}:1", equal_end, replica.now_ms)
        counted = primary.record.counts(name, incarnation)
        reply((session, at, replica.meta.log_start, counted, replica.meta.epochs.starts))
        self._committed(primary.synced(replica.durable_end))

    def fetch(
        self, reply: Wake, name: str, session: int, epoch: int, at: int, durable_end: int
    ) -> None:
        replica = self._replica
        self._committed(
            self.primary.heard(name, session, epoch, durable_end, replica.log_end, replica.now_ms)
        )
        if at < replica.meta.log_start:
            raise StaleEpoch(replica=name, epoch=epoch, now=epoch)
        self._polls.append((name, session, at, replica.loop.now + POLL, reply))
        self._serve_polls()
        replica.loop.after(POLL, replica.run, self._serve_polls)

    def ack(self, name: str, session: int, epoch: int, durable_end: int) -> None:
        replica = self._replica
        self._committed(
            self.primary.heard(name, session, epoch, durable_end, replica.log_end, replica.now_ms)
        )

    def _serve_polls(self) -> None:
        """Those for which there is something, or that have waited long enough."""
        polls, self._polls = self._polls, []
        commit_point, now = self.primary.commit_point, self._replica.loop.now
        for poll in polls:
            _, session, at, until, reply = poll
            if at < self._replica.log_end or commit_point > self._told.get(session, -1):
                self._told[session] = commit_point
                reply(self._shipment(at))
            elif until <= now:
                reply(self._shipment(at))
            else:
                self._polls.append(poll)

    def _shipment(self, at: int) -> Shipment:
        replica = self._replica
        found = epoch_at(replica.meta.epochs.starts, at)
        assert found is not None
        data_epoch, epoch_end = found
        log, end = replica.disk.log, min(replica.log_end, epoch_end or replica.log_end)
        whole = whole_end(log, at, min(end, at + replica.world.fetch_bytes))
        data = bytes(log[at:whole])
        return Shipment(
            epoch=self.primary.record.epoch,
            at=at,
            data=data,
            crc=crc32(data),
            data_epoch=EpochStart(*data_epoch),
            commit_point=self.primary.commit_point,
        )

    # --- the register ---

    async def _goes_on(self, view: View) -> bool:
        """False: another leads, or this one has handed over."""
        primary, record = self.primary, view.record
        if view.version < self._version or record is None:
            return True  # an old answer
        if record.epoch != primary.record.epoch:
            return False
        if view.version > self._version:
            if record != primary.proposed:
                raise Violation("R2", f"{self._replica.run_name}: somebody else wrote {record}")
            self._accepted(view.version)
        await self._propose()
        return True

    async def _propose(self) -> None:
        """The same record again, until it is known what became of it."""
        primary = self.primary
        wanted = self._handing or primary.proposed or self._hand_over()
        wanted = wanted or primary.propose(self._replica.now_ms)
        if wanted is None:
            return
        answer = await self._replica.swap_register(self._version, wanted)
        if answer is not None and answer[0] is not None and wanted is primary.proposed:
            self._accepted(answer[0])

    def _accepted(self, version: int) -> None:
        self._version = version
        self._committed(self.primary.accepted())

    def _hand_over(self) -> GroupRecord | None:
        replica, primary = self._replica, self.primary
        if replica.stopping and primary.commit_point == replica.log_end:
            successor = primary.successor(replica.now_ms)
            if successor is not None:
                self._handing = primary.handed_over(successor)
        return self._handing
