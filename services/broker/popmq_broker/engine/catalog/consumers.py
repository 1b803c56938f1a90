"""Consumers that pull: who is in a group just now, and what becomes of its queues when one leaves.

Nothing here is on disk: after a restart the members say again that they live.
"""

from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import BadRequest
from popmq_common.records.names import classic_retry_topic
from popmq_internal.v1 import link_pb2 as link

SESSION_MS_MAX = 600_000
CLIENT_ID_MAX = 1_024


class Consumers:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        consumer_state: ConsumerState,
        topics: Topics,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._consumer_state = consumer_state
        self._topics = topics

    async def join(self, request: link.Join) -> link.JoinReply:
        """Raises `TopicNotFound`, `GroupNotFound`, `BadRequest`, `TooManyRequests`."""
        catalog_state, consumer_state = self._catalog_state, self._consumer_state
        group, topic, client_id = request.group, request.topic, request.client_id
        check_client_id(client_id)
        if request.leave:
            consumer_state.members.leave(client_id, group, topic)
            consumer_state.locks.leave(client_id, group, topic)
            consumer_state.queue_locks.leave(client_id, group, topic)
            return link.JoinReply()
        catalog_state.group(group)
        if topic == classic_retry_topic(group) and topic not in catalog_state.topics:
            await self._open_retries(topic)
        catalog_state.topic(topic)
        if not 0 < request.session_ms <= SESSION_MS_MAX:
            reason = f"a session of {request.session_ms} ms, 1 to {SESSION_MS_MAX} allowed"
            raise BadRequest(reason=reason)
        now_ms = self._runtime.clock.now_ms()
        found = consumer_state.members.join(group, topic, client_id, now_ms, request.session_ms)
        return link.JoinReply(members=found)

    async def _open_retries(self, topic: str) -> None:
        """There is nothing in it yet, but the group is going to pull it."""
        self._topics.ensure_system_copy_target(topic)
        await self._runtime.store.durable(self._runtime.store.log_end)
        await self._topics.announce()

    def gone(self, client_id: str) -> None:
        """Its goodbye, to all its groups."""
        self._consumer_state.members.leave(client_id)
        self._consumer_state.locks.leave(client_id)
        self._consumer_state.queue_locks.leave(client_id)


def check_client_id(client_id: str) -> None:
    """Raises `BadRequest`."""
    if not 0 < len(client_id) <= CLIENT_ID_MAX:
        raise BadRequest(reason=f"a client id of 1 to {CLIENT_ID_MAX} characters is needed")
