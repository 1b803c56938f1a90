"""Pull: messages of one queue from an offset on. No leases: the consumer keeps its place.

An offset outside the queue is answered at once with where to go on: below the first message there
(retention has deleted it) the first one, behind the end the end. So is a consumer whose group was
reset since its last pull (core/groups/pullers.py).

Source: RocketMQ PullMessageProcessor, DefaultMessageStore.getMessage.
"""

import asyncio
from itertools import count

from popmq_broker.core.catalog.tables import PERM_READ
from popmq_broker.core.filters.filter import Filter
from popmq_broker.core.groups.access_lock import Access, AccessLock
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.long_polls import GroupTopic
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.pop import wanted_by
from popmq_broker.engine.leases.queue_scan import QueueScan, scan_queue
from popmq_common.errors import BadRequest, NoPermission
from popmq_common.units import KiB
from popmq_internal.v1 import link_pb2 as link

PULL_BYTES_MAX = 512 * KiB
"""Stored bytes of one answer; the first message always fits."""


class Pull:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._numbers = count()

    async def pull(self, request: link.Pull) -> link.PullReply:
        """Up to `batch_size` messages, at once or within `poll_ms`; `next_offset` goes over what
        the filter rejects.

        Raises `TopicNotFound`, `GroupNotFound`, `NoPermission`, `IllegalFilter`, `BadRequest`,
        `TooManyRequests`.
        """
        wanted = self._check(request)
        if self._is_anothers(request):
            return self._refused(request)
        lock = self._lock(request)
        if lock is None:
            reply = await self._find(request, wanted)
            return self._refused(request) if self._is_anothers(request) else reply
        runtime = self._runtime
        committed = self._committed(request)
        before = lock.owner
        access = lock.ask(
            request.client_id,
            request.offset,
            committed,
            runtime.clock.now_ms(),
            hold_ms=self._catalog_state.group(request.group).lock_hold_ms,
            idle_polls=runtime.config.access_lock_idle_polls,
        )
        owner = None if access is Access.REFUSED else lock.began()
        if owner is None:
            return self._refused(request)
        found: link.PullReply | None = None
        try:
            self._consumer_state.locks.taken += before is not owner
            if access is Access.TAKEN and committed > request.offset:
                return self._reply(request, committed, corrected=True)
            found = await self._find(request, wanted)
        finally:
            next_offset = found.next_offset if found is not None and found.records else None
            still_owner = lock.ended(owner, runtime.clock.now_ms(), next_offset)
        refused = not still_owner or self._is_anothers(request)
        return self._refused(request) if refused else found

    def _is_anothers(self, request: link.Pull) -> bool:
        """Somebody else holds its queue lock."""
        now_ms = self._runtime.clock.now_ms()
        holder = self._consumer_state.queue_locks.holder(_key(request), now_ms)
        return holder not in ("", request.client_id)

    def _lock(self, request: link.Pull) -> AccessLock | None:
        """None: the group has no access lock."""
        if not self._catalog_state.group(request.group).lock_hold_ms:
            return None
        if not request.client_id:
            raise BadRequest(reason=f"group {request.group} has an access lock: name the client")
        return self._consumer_state.locks.of(_key(request))

    def _refused(self, request: link.Pull) -> link.PullReply:
        """Another consumer has the queue; it may be free soon."""
        self._consumer_state.locks.refused += 1
        reply = self._reply(request, request.offset)
        reply.locked_by = self._consumer_state.queue_locks.holder(
            _key(request), self._runtime.clock.now_ms()
        ) or self._consumer_state.locks.owner(_key(request))
        return reply

    async def _find(self, request: link.Pull, wanted: Filter) -> link.PullReply:
        offset = request.offset
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.poll_ms / 1000
        # Each waits under a key of its own: an arrival is for all that wait, not for one of them.
        key = GroupTopic(f"{request.group}#{next(self._numbers)}", queue_name(*_queue(request)))
        while True:
            if await self._runtime.portions.wait():
                self._check(request)
            if (sent_to := self._sent_to(request, offset)) is not None:
                return self._reply(request, sent_to, corrected=True)
            if (corrected := self._corrected(request, offset)) is not None:
                return self._reply(request, corrected, corrected=True)
            scan = self._look(request, offset, wanted)
            offset = scan.next_offset
            self._runtime.portions.use(scan.bytes_taken)
            remaining_s = deadline - loop.time()
            if scan.damaged and not scan.records:
                await self._runtime.damage.saved()
                self._check(request)
                continue
            if scan.records or remaining_s <= 0:
                return self._reply(request, offset, scan)
            if scan.more:  # everything looked at was filtered out, and there is more
                await asyncio.sleep(0)
            elif not await self._runtime.waiting_pulls.wait(key, wanted, remaining_s):
                return self._reply(request, offset)
            self._check(request)

    def _check(self, request: link.Pull) -> Filter:
        topic = self._catalog_state.topic(request.topic)
        if not topic.perm & PERM_READ:
            raise NoPermission(topic=topic.name, action="readable")
        self._catalog_state.group(request.group)
        if not 0 <= request.queue_id < topic.read_queues:
            raise BadRequest(reason=f"topic {topic.name} has no queue {request.queue_id}")
        if not 1 <= request.batch_size <= ck.CHECKPOINT_OFFSETS_MAX:
            limit = ck.CHECKPOINT_OFFSETS_MAX
            raise BadRequest(reason=f"batch size {request.batch_size}, 1 to {limit} allowed")
        return wanted_by(request.filter_kind, request.filter_expression)

    def _sent_to(self, request: link.Pull, offset: int) -> int | None:
        """Where a consumer goes on that has not followed a reset of its group."""
        committed = self._committed(request)
        return self._consumer_state.pullers.sent_to(
            _key(request), request.client_id, offset, committed
        )

    def _committed(self, request: link.Pull) -> int:
        """Of a group that has nothing in the queue yet its first offset."""
        queue = self._lease_state.group_queue(_key(request))
        return (
            self._catalog_state.min_offset(*_queue(request)) if queue is None else queue.committed
        )

    def _corrected(self, request: link.Pull, offset: int) -> int | None:
        """Where a consumer goes on that asks for what the queue does not have."""
        low = self._catalog_state.min_offset(*_queue(request))
        high = self._runtime.store.max_offset(*_queue(request))
        if offset < low:
            return low
        return high if offset > high else None

    def _look(self, request: link.Pull, offset: int, wanted: Filter) -> QueueScan:
        queue = GroupQueueState(_key(request), offset)
        return scan_queue(
            self._runtime,
            self._catalog_state,
            queue,
            True,
            request.batch_size,
            PULL_BYTES_MAX,
            wanted,
            pulls=True,
        )

    def _reply(
        self,
        request: link.Pull,
        next_offset: int,
        scan: QueueScan | None = None,
        *,
        corrected: bool = False,
    ) -> link.PullReply:
        return link.PullReply(
            records=[] if scan is None else scan.records,
            next_offset=next_offset,
            min_offset=self._catalog_state.min_offset(*_queue(request)),
            max_offset=self._runtime.store.max_offset(*_queue(request)),
            corrected=corrected,
        )


def queue_name(topic: str, queue_id: int) -> str:
    return f"{topic}/{queue_id}"


def _key(request: link.Pull) -> QueueKey:
    return QueueKey(request.group, *_queue(request))


def _queue(request: link.Pull) -> tuple[str, int]:
    return request.topic, request.queue_id
