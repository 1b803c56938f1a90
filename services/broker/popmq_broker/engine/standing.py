"""Where a group stands in a queue, read from the state as it is: figures cannot drift from it."""

from typing import NamedTuple

from popmq_broker.core.leases import GroupQueue
from popmq_broker.core.offsets import QueueKey
from popmq_broker.engine.state import BrokerState
from popmq_common.names import retry_topic


class Standing(NamedTuple):
    """Messages of one queue that the group is not done with; the sum is its lag."""

    ready: int
    in_flight: int
    blocked: int
    """Waiting for an earlier one of their message group."""


def standing(state: BrokerState, queue: GroupQueue) -> Standing:
    _, topic, queue_id = queue.key
    at = max(queue.position, state.min_offset(topic, queue_id))
    ready = max(0, state.store.max_offset(topic, queue_id) - at)
    if queue.order is None:
        return Standing(ready, len(queue.leases), 0)
    ready += queue.order.ready_count() - queue.order.known_from(at)
    return Standing(ready, len(queue.leases), queue.order.blocked_count())


def known_queues(state: BrokerState) -> dict[QueueKey, GroupQueue]:
    """All queues of the topics a group has popped, its retry topics too, looked at or not yet.

    Of a group that has never popped a topic nothing is known, and nothing is said.
    """
    found = dict(state.leases.queues)
    for group, topic in {(key.group, key.topic) for key in found if key.group in state.groups}:
        for name in (topic, retry_topic(group, topic)):
            config = state.topics.get(name)
            for i in range(config.read_queues if config else 0):
                key = QueueKey(group, name, i)
                if key not in found:
                    found[key] = state.new_group_queue(key, state.first_offset(key))
    return found
