"""Retention beside the calls: every few seconds the oldest files of the log may go.

Whether one does is decided in core/store/retention.py, how it is removed in store/retention.py.
Here, in one go between decision and removal, its messages are taken from those who count on them:

    a group that has not read them     goes on behind them; they are counted as expired
    a lease of one of them             only when the disk is too full to ask: it ends, nothing
                                       is redelivered, and it is counted as
                                       expired
    a FIFO group                       what was not settled of them is; those behind them go on

The positions are written before the files go, so that a crash in between counts nothing twice.
What a deleted topic leaves behind is forgotten when the last of its records has gone; of its
queues only the next offset is kept, so that no old handle ever means a new message.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.core.store.retention import Keep, Policy, Reason, RetentionDecision, judge
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.groups.offsets import Offsets
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.revive import Revive
from popmq_broker.store.queues.queues import QueueId
from popmq_common.errors import DiskFull


class Retention:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        revive: Revive,
        offsets: Offsets,
        topics: Topics,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._topics = topics
        self._revive = revive
        self._offsets = offsets
        config = runtime.config
        hours = frozenset(config.retention_hours_utc)
        self._policy = Policy(retention_ms=config.retention_ms, hours=hours)
        self.deleted: Counter[Reason] = Counter()
        """Files of the log, since the start."""
        self.kept_for: tuple[str, ...] = ()
        """Who needs the oldest file, when it would go otherwise."""
        runtime.retention_holds["leases"] = self._leases_hold

    async def run(self) -> None:
        """A round each interval, for ever."""
        self._runtime.store.disk.look(self._runtime.clock.now_ms())
        while True:
            await asyncio.sleep(self._runtime.config.retention_interval_ms / 1000)
            await self.round()

    async def round(self) -> int:
        """Delete what may go, a bounded number of files; returns how many."""
        runtime = self._runtime
        runtime.store.disk.look(runtime.clock.now_ms())
        count = 0
        while count < runtime.config.retention_files_max and await self._delete_oldest():
            count += 1
        await self._forget_deleted_topics()
        await self._topics.drain()
        return count

    async def _delete_oldest(self) -> bool:
        """Decide; look where the queues would begin; decide again, as time has passed; act."""
        runtime = self._runtime
        oldest = runtime.store.look_at_oldest()
        if oldest is None or self._decide().reason is None:
            return False
        await self._topics.catalog.write_whole(oldest.end)
        minimums = await runtime.store.oldest.new_minimums(oldest.end)
        decision = self._decide()
        if decision.reason is None:
            return False
        where = {"log_offset": runtime.store.log_start, "until": oldest.end}
        if decision.reason is Reason.FORCED:
            runtime.log.error("retention.forced", **where, lost_by=", ".join(decision.needed_by))
        runtime.store.oldest.forget(minimums)
        self._expire(minimums)
        self.deleted[decision.reason] += 1
        try:
            await self._offsets.write()
        except DiskFull as full:  # more so if nothing went
            runtime.log.warning("offsets.postponed", reason=str(full))
        await runtime.store.remove_forgotten()
        runtime.log.info("retention.deleted", **where, reason=decision.reason.value)
        return True

    def _decide(self) -> RetentionDecision:
        runtime = self._runtime
        oldest = runtime.store.look_at_oldest()
        assert oldest is not None
        now_ms = runtime.clock.now_ms()
        hour = datetime.fromtimestamp(now_ms / 1000, UTC).hour
        decide = partial(
            judge,
            oldest,
            policy=self._policy,
            pressure=runtime.store.disk.look(now_ms),
            now_ms=now_ms,
            hour=hour,
        )
        found = decide(holds={})
        if found.reason is not None:  # asking all leases is dear
            found = decide(holds={name: hold() for name, hold in runtime.retention_holds.items()})
        if found.needed_by != self.kept_for and found.keep is Keep.NEEDED:
            needed_by = ", ".join(found.needed_by)
            runtime.log.info(
                "retention.kept", log_offset=runtime.store.log_start, needed_by=needed_by
            )
        self.kept_for = found.needed_by if found.keep is Keep.NEEDED else ()
        return found

    def _expire(self, minimums: Mapping[QueueId, int]) -> None:
        """Groups go on behind what is gone; nothing is awaited in here."""
        for queue in list(self._lease_state.table.queues.values()):
            _, topic, queue_id = queue.key
            oldest = minimums.get((topic, queue_id))
            if oldest is not None:
                self._expire_in(queue, oldest)
        for place, oldest in minimums.items():
            self._runtime.damage.begins_at(place, oldest)

    def _expire_in(self, queue: GroupQueueState, oldest: int) -> None:
        runtime, lease_state = self._runtime, self._lease_state
        before = queue.expired
        try:
            self._revive.end_gone(queue)
        except DiskFull as full:
            runtime.log.warning("retention.leases_stay", queue=repr(queue), reason=str(full))
        _, over = queue.expire_below(oldest)
        lease_state.close(over)
        if queue.expired > before:
            group, topic, queue_id = queue.key
            runtime.log.warning(
                "messages.expired",
                group=group,
                topic=topic,
                queue_id=queue_id,
                count=queue.expired - before,
                goes_on_at=queue.position,
            )
        lease_state.wake_for_fifo(queue)

    def _leases_hold(self) -> int | None:
        """The oldest message that is held. Its checkpoint is younger, and goes after it.

        Checkpoints of what a FIFO group has settled are needed only while the messages are there.
        """
        held = (
            lease.log_offset
            for queue in self._lease_state.table.queues.values()
            for lease in queue.leases.values()
        )
        return min(held, default=None)

    async def _forget_deleted_topics(self) -> None:
        """Their queues, when nothing of them is left in the log. The floors stay."""
        runtime, catalog_state = self._runtime, self._catalog_state
        for topic in catalog_state.floors.keys() - catalog_state.topics.keys():
            if runtime.store.oldest.forget_topic(topic, catalog_state.floors[topic]):
                runtime.log.info("topic.forgotten", topic=topic)
                await runtime.store.remove_forgotten()
