"""Rebuild: the damaged entries of a queue are made again from the log while the broker works.

Each entry is held against its record. One that is not its message's is looked for in the log,
between the records of the sound entries around it, and written in its place; a record that is
damaged cannot be made again. Then what groups had gone over, and can be read now, is theirs:

    a group                  a copy in its retry topic, as of a lease that ran out, not counted
    a FIFO group             its turn, while all behind it is open; else it is a dead letter, for
                             what comes behind it in order has been settled
    timers, delay levels     it waits for its time, or comes now
    a consumer that pulls    nothing; it keeps its own place, and who wants them resets the group

A start does the second half for all that was known as damaged: the files may have been repaired
meanwhile. A crash in the middle may deliver a message twice, and leaves none out.
"""

import asyncio
from dataclasses import dataclass, field

from popmq_broker.core.leases.fifo_queue import FifoEntry, FifoQueue
from popmq_broker.core.leases.grant import Grant
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.core.retries.retry import DeadLetterCause, dead_letter, retry_or_dead_letter
from popmq_broker.core.store.damage import Passer, Queue
from popmq_broker.core.store.ranges import Range, Ranges
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.queue_scan import message_group_of
from popmq_broker.engine.retries.copies import consumed_topic, copy_draft
from popmq_broker.engine.timers.timer import Timers
from popmq_broker.store.store import Draft
from popmq_common.errors import BadRequest, Corrupt, DiskFull, PopMQError, RebuildRunning
from popmq_common.records import properties as names
from popmq_common.records.names import TIMER_TOPIC, WHEEL_GROUP
from popmq_common.records.record import Record
from popmq_internal.v1 import link_pb2 as link

BATCH_MAX = 128
"""Delivered by one append."""
FIFO_REASON = "its place in the queue was damaged, and its group had gone on when it was repaired"


@dataclass(slots=True)
class RebuildProgress:
    """How far a rebuild is."""

    queue: Queue = ("", 0)
    running: bool = False
    looked_at: int = 0
    repaired: int = 0
    unreadable: Ranges = field(default_factory=Ranges)
    delivered: int = 0
    failure: str = ""


class Rebuilds:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
        topics: Topics,
        timers: Timers,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._topics = topics
        self._timers = timers
        self._progress = RebuildProgress()
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def rebuild_queue(self, request: link.RebuildQueue) -> link.RebuildQueueReply:
        """Begin one, or tell how far the last is. Raises `BadRequest`, `RebuildRunning`."""
        queue, progress = (request.topic, request.queue_id), self._progress
        if request.begin and not (progress.running and progress.queue == queue):
            if progress.running:
                raise RebuildRunning(topic=progress.queue[0], queue_id=progress.queue[1])
            if not self._runtime.store.has_queue(*queue):
                raise BadRequest(reason=f"topic {queue[0]} has no queue {queue[1]} here")
            progress = self._progress = RebuildProgress(queue, running=True)
            self._task = asyncio.create_task(self._rebuild(progress))
        return link.RebuildQueueReply(
            running=progress.running,
            topic=progress.queue[0],
            queue_id=progress.queue[1],
            looked_at=progress.looked_at,
            repaired=progress.repaired,
            unreadable=progress.unreadable.count,
            delivered=progress.delivered,
            failure=progress.failure,
        )

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def mend_known(self) -> None:
        """What was damaged and can be read now is delivered."""
        table = self._runtime.damage.table
        for queue in {*table.places, *(passer.queue for passer in table.passed)}:
            async with self._turn:
                ranges = list(table.places.get(queue, ()))
                for passer in table.passers(queue):
                    ranges += table.passed[passer]
                await self._settle(RebuildProgress(queue), Ranges(ranges))

    async def _rebuild(self, progress: RebuildProgress) -> None:
        log, (topic, queue_id) = self._runtime.log, progress.queue
        try:
            async with self._turn:
                await self._repair(progress)
        except PopMQError as failed:
            progress.failure = str(failed)
        except Exception as bug:
            progress.failure = f"an error of the broker: {bug!r}"
            log.error("queue.rebuild_failed", exc_info=bug)
        finally:
            progress.running = False
        log.warning(
            "queue.rebuilt",
            topic=topic,
            queue_id=queue_id,
            repaired=progress.repaired,
            unreadable=progress.unreadable.count,
            delivered=progress.delivered,
            failure=progress.failure,
        )

    async def _repair(self, progress: RebuildProgress) -> None:
        """Raises `DiskFull`."""
        store, queue = self._runtime.store, progress.queue
        first, end = store.min_offset(*queue), store.max_offset(*queue)
        log_end = store.visible_end
        damaged = Ranges()
        for run in store.repair.damaged(queue, first, end):
            if isinstance(run, int):
                progress.looked_at = run - first
                await asyncio.sleep(0)
            else:
                damaged.add(*run)
        progress.looked_at = end - first
        for run in damaged:
            for offset in store.repair.repair(queue, run, log_end):
                if offset is None:
                    await asyncio.sleep(0)
                else:
                    progress.repaired += 1
        if progress.repaired and not await store.checkpoint():
            raise DiskFull(path=store.data_dir)
        known = self._runtime.damage.table.places.get(queue, Ranges())
        await self._settle(progress, Ranges([*damaged, *known]))

    async def _settle(self, progress: RebuildProgress, damaged: Ranges) -> None:
        """What of these can be read is no damage any more, and belongs to who had gone over it."""
        runtime = self._runtime
        queue = progress.queue
        readable = Ranges()
        for run in damaged:
            for offset in range(*run):
                if offset % BATCH_MAX == 0:
                    await asyncio.sleep(0)
                if runtime.store.repair.record(queue, offset) is not None:
                    readable.add(offset, offset + 1)
                else:
                    progress.unreadable.add(offset, offset + 1)
        wrong = Corrupt(path="/".join(map(str, queue)), offset="?", reason="its record is damaged")
        for run in progress.unreadable:
            runtime.damage.tell(queue, run.start, run.end, wrong)
        for passer in runtime.damage.table.passers(queue):
            if not passer.pulls:
                for run in readable:
                    await self._deliver(progress, passer, run)
        for run in readable:
            runtime.damage.mended(queue, *run)
        await runtime.damage.saved()

    async def _deliver(self, progress: RebuildProgress, passer: Passer, run: Range) -> None:
        """What of `run` the group has gone over; then its note is no more."""
        runtime = self._runtime
        for start in range(run.start, run.end, BATCH_MAX):
            end = min(start + BATCH_MAX, run.end)
            passed = runtime.damage.table.passed.get(passer, Ranges())
            offsets = [offset for part in passed.within(start, end) for offset in range(*part)]
            drafts: list[Draft] = []
            for offset in offsets:
                record = runtime.store.repair.record(passer.queue, offset)
                if record is not None:
                    drafts += self._drafts(passer, record)
                    progress.delivered += 1
            if drafts:
                places = runtime.store.append(drafts, runtime.clock.now_ms(), system=True)
                self._timers.on_appended(drafts, places)
                await runtime.store.durable(runtime.store.log_end)
            runtime.damage.settled(passer, start, end)
            await runtime.damage.saved()

    def _drafts(self, passer: Passer, record: Record) -> list[Draft]:
        if passer.group == WHEEL_GROUP:
            return self._of_timers(record)
        queue = self._lease_state.group_queue(passer.key)
        group = self._catalog_state.groups.get(passer.group)
        offset = record.queue_offset
        if queue is None or group is None or offset >= queue.position or offset in queue.leases:
            return []  # it comes, or came, in its turn
        if queue.fifo_queue is not None and not self._is_wanted(passer, record):
            return []
        if queue.fifo_queue is not None and offset >= queue.fifo_queue.first:
            self._put_in_order(queue, queue.fifo_queue, record)
            return []
        return self._copy(queue, record)

    def _is_wanted(self, passer: Passer, record: Record) -> bool:
        """By the group's last filter; a retry topic is read through it, dead letters are not."""
        last = self._consumer_state.receives.of(passer.group, passer.topic)
        return last is None or last.wanted is None or last.wanted.matches(record.properties)

    def _put_in_order(self, queue: GroupQueueState, fifo_queue: FifoQueue, record: Record) -> None:
        """Nothing is committed behind it: a restart would find it there too."""
        entry = self._runtime.store.repair.entry(queue.key[1:], record.queue_offset)
        if entry is not None and record.queue_offset not in fifo_queue.entries:
            name = message_group_of(record)
            fifo_queue.found(
                FifoEntry(record.queue_offset, name, entry.log_offset, entry.size_bytes)
            )
            self._lease_state.wake_for_fifo(queue)

    def _copy(self, queue: GroupQueueState, record: Record) -> list[Draft]:
        """As of a lease that was given and ran out: its checkpoint, the copy, and the ack record
        that ends it."""
        runtime = self._runtime
        key, now_ms = queue.key, self._runtime.clock.now_ms()
        group, offset = self._catalog_state.groups[key.group], record.queue_offset
        topic = consumed_topic(key)
        grant = Grant(offset, now_ms, 0, 0, 0, 1)
        if queue.fifo_queue is not None:
            copy = dead_letter(
                record,
                group=group.name,
                topic=topic,
                pop_time_ms=now_ms,
                cause=DeadLetterCause.MISSED,
                reason=FIFO_REASON,
            )
        else:
            copy = retry_or_dead_letter(
                record,
                group=group.name,
                topic=topic,
                pop_time_ms=now_ms,
                max_attempts=group.max_attempts,
                max_hand_outs=group.max_hand_outs,
                counted=False,
            )
        self._topics.ensure_system_copy_target(copy.topic)
        counts = runtime.stats.dead if copy.dead else runtime.stats.revived
        counts[topic, group.name] += 1
        checkpoint = journal.grant_record(runtime, key, grant, (offset,))
        return [
            journal.checkpoint(runtime, checkpoint, 0, now_ms),
            copy_draft(record, copy),
            journal.ack(runtime, key, grant, (offset,), now_ms=now_ms, expired=True),
        ]

    def _of_timers(self, record: Record) -> list[Draft]:
        if record.topic == TIMER_TOPIC:
            self._timers.missed(record)
            return []
        found = self._timers.levels.missed(record)
        if found is None:
            return []
        draft, due_ms = found
        now_ms = self._runtime.clock.now_ms()
        if due_ms > now_ms:
            later = {**names.decode(draft.properties), names.DELIVER_MS: str(due_ms)}
            draft = self._timers.park(draft._replace(properties=names.encode(later)), now_ms)
        return [draft]
