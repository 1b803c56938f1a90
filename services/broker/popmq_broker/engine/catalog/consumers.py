"""Consumers that pull: who is in a group just now, and what becomes of its queues when one leaves.

Nothing here is on disk: after a restart the members say again that they live.
"""

from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.state import BrokerState
from popmq_common.errors import BadRequest
from popmq_common.records.names import classic_retry_topic
from popmq_internal.v1 import link_pb2 as link

SESSION_MS_MAX = 600_000
CLIENT_ID_MAX = 1_024


class Consumers:
    def __init__(self, state: BrokerState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    async def join(self, request: link.Join) -> link.JoinReply:
        """Raises `TopicNotFound`, `GroupNotFound`, `BadRequest`, `TooManyRequests`."""
        state = self._state
        group, topic, client_id = request.group, request.topic, request.client_id
        check_client_id(client_id)
        if request.leave:
            state.members.leave(client_id, group, topic)
            state.locks.leave(client_id, group, topic)
            state.queue_locks.leave(client_id, group, topic)
            return link.JoinReply()
        state.group(group)
        if topic == classic_retry_topic(group) and topic not in state.topics:
            await self._open_retries(topic)
        state.topic(topic)
        if not 0 < request.session_ms <= SESSION_MS_MAX:
            reason = f"a session of {request.session_ms} ms, 1 to {SESSION_MS_MAX} allowed"
            raise BadRequest(reason=reason)
        now_ms = state.clock.now_ms()
        found = state.members.join(group, topic, client_id, now_ms, request.session_ms)
        return link.JoinReply(members=found)

    async def _open_retries(self, topic: str) -> None:
        """There is nothing in it yet, but the group is going to pull it."""
        self._topics.ensure_system_copy_target(topic)
        await self._state.store.durable(self._state.store.log_end)
        await self._topics.announce()

    def gone(self, client_id: str) -> None:
        """Its goodbye, to all its groups."""
        self._state.members.leave(client_id)
        self._state.locks.leave(client_id)
        self._state.queue_locks.leave(client_id)


def check_client_id(client_id: str) -> None:
    """Raises `BadRequest`."""
    if not 0 < len(client_id) <= CLIENT_ID_MAX:
        raise BadRequest(reason=f"a client id of 1 to {CLIENT_ID_MAX} characters is needed")
