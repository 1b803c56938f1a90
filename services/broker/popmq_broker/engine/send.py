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
from popmq_internal.v1 import link_pb2 as link


class Begun(NamedTuple):
    """What one send has appended."""

    topic: str
    drafts: list[Draft]
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
        self.fill(reply, begun)
        return reply

    def begin(self, requests: Sequence[link.Send]) -> list[Begun | PopMQError]:
        """Append several calls at once, each as a whole or not at all; nothing is durable yet."""
        found: list[tuple[str, list[Draft]] | PopMQError] = []
        for request in requests:
            try:
                found.append((request.topic, self._drafts(request)))
            except PopMQError as error:
                found.append(error)
        state = self._state
        now_ms = state.clock.now_ms()
        everything = [draft for one in found if isinstance(one, tuple) for draft in one[1]]
        if not everything:
            return [one for one in found if isinstance(one, PopMQError)]
        try:
            places = iter(state.store.append(everything, now_ms))
        except PopMQError as error:
            if len(requests) == 1:
                return [error]
            return [begun for request in requests for begun in self.begin([request])]
        return [
            one if isinstance(one, PopMQError) else Begun(*one, list(islice(places, len(one[1]))))
            for one in found
        ]

    def fill(self, reply: link.SendReply, begun: Begun) -> None:
        """The answer to a call that is durable now."""
        self._state.stats.sent[begun.topic] += len(begun.drafts)
        for draft, at in zip(begun.drafts, begun.appended, strict=True):
            reply.results.add(
                queue_id=draft.queue_id,
                queue_offset=at.queue_offset,
                log_offset=at.log_offset,
                store_timestamp_ms=at.store_timestamp_ms,
            )

    def _drafts(self, request: link.Send) -> list[Draft]:
        topic = self._state.topic(request.topic)
        if not topic.perm & PERM_WRITE:
            raise NoPermission(topic=topic.name, action="writable")
        if not request.records:
            raise BadRequest(reason="no message to store")
        return [self._draft(topic, record) for record in request.records]

    def _draft(self, topic: TopicConfig, record: link.OutgoingRecord) -> Draft:
        queue_id = record.queue_id
        if queue_id < 0:
            queue_id = self._next_queue % topic.write_queues
            self._next_queue += 1
        elif queue_id >= topic.write_queues:
            raise BadRequest(reason=f"topic {topic.name} has no queue {queue_id}")
        tag = tag_of(record.properties)
        return Draft(
            topic=topic.name,
            queue_id=queue_id,
            body=record.body,
            properties=record.properties,
            tags_code=tags_code(tag) if tag else 0,
            sys_flag=record.sys_flag,
            flag=record.flag,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=record.born_host,
        )


_TAG_INSIDE = names.VALUE_END.encode() + names.TAGS.encode() + names.NAME_END.encode()
_TAG_FIRST = _TAG_INSIDE[1:]


def tag_of(properties: bytes) -> str | None:
    """The TAGS property, without decoding the others."""
    if properties.startswith(_TAG_FIRST):
        start = len(_TAG_FIRST)
    else:
        at = properties.find(_TAG_INSIDE)
        if at < 0:
            return None
        start = at + len(_TAG_INSIDE)
    end = properties.find(names.VALUE_END.encode(), start)
    return properties[start : end if end >= 0 else None].decode("utf-8", "replace")
