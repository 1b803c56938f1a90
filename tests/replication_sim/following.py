"""A replica as follower: greets its primary, cuts its own tail, fetches, acknowledges."""

from typing import TYPE_CHECKING

from replication_sim.loop import MS, Task
from replication_sim.violation import Violation

from popmq_broker.core.replication.election import Role
from popmq_broker.core.replication.follower import Following, GoOn, Shipment, start_of
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_common.errors import PopMQError, ReplicaDiverged

if TYPE_CHECKING:
    from replication_sim.replica import Replica

TICK = 150 * MS
AGAIN = 50 * MS
POLL = 100 * MS


class FollowerRole:
    def __init__(self, replica: "Replica", record: GroupRecord) -> None:
        self._replica = replica
        self._record = record
        self._following: Following | None = None
        self._session = 0
        self._tasks: list[Task] = []

    async def play(self) -> None:
        replica, record = self._replica, self._record
        await self._promise()
        replica.world.judge.follows(replica.run_name, record.epoch, replica.disk)
        self._tasks = [replica.spawn(self._follow()), replica.spawn(self._sync())]
        while not replica.stopping:
            await replica.sleep(TICK)
            view = await replica.look()
            if view is None:
                continue
            same = view.record is not None and view.record.epoch == record.epoch
            if not same or replica.role_by(view) is not Role.FOLLOW:
                return

    def close(self) -> None:
        for task in self._tasks:
            task.close()

    async def _promise(self) -> None:
        epochs = self._replica.meta.epochs.promise(self._record.epoch)
        await self._replica.persist(epochs=epochs, identity=self._record.identity)

    async def _follow(self) -> None:
        while True:
            try:
                if await self._greet():
                    await self._fetch()
            except ReplicaDiverged as error:
                raise Violation("R5", f"{self._replica.run_name}: {error}") from error
            except PopMQError:
                pass  # what the primary sent does not fit: it is greeted again
            self._following = None
            await self._replica.sleep(AGAIN)

    async def _greet(self) -> bool:
        replica = self._replica
        epoch, epochs = self._record.epoch, replica.meta.epochs
        answer = await replica.call(
            self._record.primary,
            "hello",
            replica.name,
            replica.meta.incarnation,
            epoch,
            epochs,
            replica.log_end,
            replica.durable_end,
        )
        if answer is None or isinstance(answer, PopMQError):
            return False
        self._session, split, log_start, counted, theirs = answer
        start, at = start_of(
            split=split,
            log_end=replica.log_end,
            primary_log_start=log_start,
            shown_end=replica.shown_end,
            counted=counted,
        )
        if start is GoOn.CUT:
            await replica.cut(at)
        elif start is GoOn.ANEW and (replica.log_end or at):
            await replica.begin_anew(at, theirs)
            return False  # and greets again, as another
        self._following = Following(
            replica.meta.epochs, epoch, replica.log_end, replica.durable_end
        )
        return True

    async def _fetch(self) -> None:
        replica, following = self._replica, self._following
        assert following is not None
        while True:
            epoch, durable_end = self._record.epoch, following.durable_end
            at = following.log_end
            shipment = await replica.call(
                self._record.primary, "fetch", replica.name, self._session, epoch, at, durable_end
            )
            if shipment is None or isinstance(shipment, PopMQError):
                return
            await self._take(following, shipment)

    async def _take(self, following: Following, shipment: Shipment) -> None:
        replica = self._replica
        begins = following.check(shipment)
        if begins is not None:
            await replica.persist(epochs=following.begin(begins))
        if shipment.data:
            replica.write(shipment.data)
            following.written(shipment)
        following.told(shipment.commit_point)
        self._show(following)

    async def _sync(self) -> None:
        replica = self._replica
        while True:
            following = self._following
            if following is None or following.log_end <= following.durable_end:
                await replica.grown(POLL)
                continue
            end = await replica.sync()
            if self._following is following:
                following.synced(end)
                self._show(following)
                epoch, session = self._record.epoch, self._session
                replica.tell(self._record.primary, "ack", replica.name, session, epoch, end)

    def _show(self, following: Following) -> None:
        replica = self._replica
        end = max(replica.shown_end, following.commit_point)
        if end > replica.shown_end:
            replica.world.judge.shows(replica.run_name, replica.shown_end, end, replica.disk)
            replica.shown_end = end
