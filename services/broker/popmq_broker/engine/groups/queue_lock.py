"""Queues that consumers ask for to have them alone; the decision is core/groups/queue_lock.py."""

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.engine.catalog.consumers import check_client_id
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link


class QueueLock:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, consumer_state: ConsumerState
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._consumer_state = consumer_state

    async def lock_queues(self, request: link.LockQueues) -> link.LockQueuesReply:
        """Of the queues asked for, those that the client has afterwards.

        Raises `TopicNotFound`, `GroupNotFound`, `BadRequest`.
        """
        catalog_state = self._catalog_state
        check_client_id(request.client_id)
        locks = self._consumer_state.queue_locks
        keys = [QueueKey(request.group, request.topic, id) for id in request.queue_ids]
        if request.release:
            for key in keys:
                locks.unlock(key, request.client_id)
            return link.LockQueuesReply(life_ms=locks.life_ms)
        catalog_state.group(request.group)
        count = catalog_state.topic(request.topic).read_queues
        for key in keys:
            if not 0 <= key.queue_id < count:
                raise BadRequest(reason=f"topic {key.topic} has no queue {key.queue_id}")
        now_ms = self._runtime.clock.now_ms()
        held = [key.queue_id for key in keys if locks.lock(key, request.client_id, now_ms)]
        return link.LockQueuesReply(queue_ids=held, life_ms=locks.life_ms)
