"""The draft that ends a wait without the message: the mark that it will not come."""

from collections.abc import Sequence

from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.core.timers import timer
from popmq_broker.store.store import Draft
from popmq_common.records import hosts
from popmq_common.records.names import TIMER_TOPIC


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
