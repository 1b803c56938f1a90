"""Send: messages into the log, answered when they are on disk."""

from popmq_broker.core.queue_entry import tags_code
from popmq_broker.core.tables import PERM_WRITE, TopicConfig
from popmq_broker.engine.state import BrokerState
from popmq_broker.store.store import Draft
from popmq_common import properties as names
from popmq_common.errors import BadRequest, NoPermission
from popmq_internal.v1 import link_pb2 as link


class Send:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._next_queue = 0

    async def send(self, request: link.Send) -> link.SendReply:
        """All of one call or none. Raises `TopicNotFound`, `NoPermission`, `DiskFull`."""
        state = self._state
        topic = state.topic(request.topic)
        if not topic.perm & PERM_WRITE:
            raise NoPermission(topic=topic.name, action="writable")
        if not request.records:
            raise BadRequest(reason="no message to store")
        drafts = [self._draft(topic, record) for record in request.records]
        appended = state.store.append(drafts, state.clock.now_ms())
        await state.store.durable(appended[-1].end_offset)
        state.stats.sent[topic.name] += len(drafts)
        return link.SendReply(
            results=[
                link.SendResult(
                    queue_id=draft.queue_id,
                    queue_offset=at.queue_offset,
                    log_offset=at.log_offset,
                    store_timestamp_ms=at.store_timestamp_ms,
                )
                for draft, at in zip(drafts, appended, strict=True)
            ]
        )

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
