"""Send: messages into the log, answered when they are on disk."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from popmq_broker.core.queue_entry import tags_code
from popmq_broker.core.tables import PERM_WRITE, TopicConfig
from popmq_broker.engine.state import BrokerState
from popmq_broker.store.store import Appended, Draft
from popmq_common import properties as names
from popmq_common.errors import BadRequest, NoPermission, PopMQError
from popmq_common.sends import OutgoingRecord, SendCall, SendDone
from popmq_internal.v1 import link_pb2 as link


class Begun(NamedTuple):
    """What one send has appended."""

    topic: str
    queue_id: int
    appended: list[Appended]

    @property
    def end_offset(self) -> int:
        return self.appended[-1].end_offset


class Send:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._next_queue = 0

    async def send(self, request: link.Send) -> link.SendReply:
        """All of one call or none. Raises `TopicNotFound`, `NoPermission`, `DiskFull`."""
        (begun,) = self.begin([request])
        if isinstance(begun, PopMQError):
            raise begun
        await self._state.store.durable(begun.end_offset)
        reply = link.SendReply()
        self.tell(reply, begun)
        return reply

    def begin(self, requests: Sequence[link.Send | SendCall]) -> list[Begun | PopMQError]:
        """Append several calls at once, each as a whole or not at all; nothing is durable yet."""
        found: list[list[Draft] | PopMQError] = []
        everything: list[Draft] = []
        for request in requests:
            try:
                drafts = self._drafts(request)
                found.append(drafts)
                everything += drafts
            except PopMQError as error:
                found.append(error)
        state = self._state
        now_ms = state.clock.now_ms()
        if not everything:
            return [one for one in found if isinstance(one, PopMQError)]
        try:
            places = iter(state.store.append(everything, now_ms))
        except PopMQError as error:
            if len(requests) == 1:
                return [error]
            return [begun for request in requests for begun in self.begin([request])]
        return [
            one
            if isinstance(one, PopMQError)
            else Begun(one[0].topic, one[0].queue_id, list(islice(places, len(one))))
            for one in found
        ]

    def tell(self, reply: link.SendReply | SendDone, begun: Begun) -> None:
        """The answer to a call that is durable now."""
        self._state.stats.sent[begun.topic] += len(begun.appended)
        reply.queue_id = begun.queue_id
        reply.queue_offset = begun.appended[0].queue_offset

    def _drafts(self, request: link.Send | SendCall) -> list[Draft]:
        topic = self._state.topic(request.topic)
        if not topic.perm & PERM_WRITE:
            raise NoPermission(topic=topic.name, action="writable")
        queue_id = self._queue(topic, request.queue_id)
        drafts = [_draft(topic.name, queue_id, record) for record in request.records]
        if not drafts:
            raise BadRequest(reason="no message to store")
        return drafts

    def _queue(self, topic: TopicConfig, queue_id: int) -> int:
        if queue_id >= topic.write_queues:
            raise BadRequest(reason=f"topic {topic.name} has no queue {queue_id}")
        if queue_id >= 0:
            return queue_id
        self._next_queue += 1
        return (self._next_queue - 1) % topic.write_queues


def _draft(topic: str, queue_id: int, record: link.OutgoingRecord | OutgoingRecord) -> Draft:
    properties = record.properties
    tag = tag_of(properties) if _TAG in properties else None
    return Draft(
        topic,
        queue_id,
        record.body,
        properties,
        tags_code(tag) if tag else 0,
        record.sys_flag,
        record.flag,
        record.born_timestamp_ms,
        record.born_host,
    )


_TAG = (names.TAGS + names.NAME_END).encode()


def tag_of(properties: bytes) -> str | None:
    return names.value_of(properties, _TAG)
