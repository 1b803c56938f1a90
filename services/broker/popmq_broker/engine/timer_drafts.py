"""Drafts that end a wait: the message in its topic, or the mark that it will not come."""

from collections.abc import Sequence

from popmq_broker.core import timer
from popmq_broker.core.queue_entry import tags_code, tags_code_of
from popmq_broker.store.store import Draft
from popmq_common import hosts
from popmq_common.names import TIMER_TOPIC
from popmq_common.record import Record


def unparked(record: Record, topic: str, queue_id: int, properties: bytes) -> Draft:
    """The message of a parked record in that queue."""
    return Draft(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties=properties,
        tags_code=tags_code_of(properties),
        sys_flag=record.sys_flag,
        flag=record.flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times,
    )


def mark_draft(
    topic: str, message_id: str, due_ms: int, offsets: Sequence[int], now_ms: int
) -> Draft:
    """Ends what waits at these offsets, all of one message id, without a delivery."""
    of = ",".join(map(str, offsets))
    properties = timer.mark(topic, message_id, due_ms, 0, of)
    return Draft(
        topic=TIMER_TOPIC,
        queue_id=0,
        body=timer.RECALL_BODY,
        properties=properties,
        tags_code=tags_code(timer.RECALL_TAG),
        sys_flag=0,
        flag=0,
        born_timestamp_ms=now_ms,
        born_host=hosts.LOCAL,
    )
