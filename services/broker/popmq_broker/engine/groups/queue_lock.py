"""Queues that consumers ask for to have them alone; the decision is core/groups/queue_lock.py."""

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.engine.catalog.consumers import check_client_id
from popmq_broker.engine.journal.state import BrokerState
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link


class QueueLock:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    async def lock_queues(self, request: link.LockQueues) -> link.LockQueuesReply:
        """Of the queues asked for, those that the client has afterwards.

        Raises `TopicNotFound`, `GroupNotFound`, `BadRequest`.
        """
        state = self._state
        check_client_id(request.client_id)
        locks = state.queue_locks
        keys = [QueueKey(request.group, request.topic, id) for id in request.queue_ids]
        if request.release:
            for key in keys:
                locks.unlock(key, request.client_id)
            return link.LockQueuesReply(life_ms=locks.life_ms)
        state.group(request.group)
        count = state.topic(request.topic).read_queues
        for key in keys:
            if not 0 <= key.queue_id < count:
                raise BadRequest(reason=f"topic {key.topic} has no queue {key.queue_id}")
        now_ms = state.clock.now_ms()
        held = [key.queue_id for key in keys if locks.lock(key, request.client_id, now_ms)]
        return link.LockQueuesReply(queue_ids=held, life_ms=locks.life_ms)
