"""What revive copies: the topic its group consumes, the draft of a copy, and the warning of a
message that is given back again and again."""

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.grant import Lease
from popmq_broker.core.retries.deliveries import WARNED_EVERY
from popmq_broker.core.retries.retry import Copy
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.queues.drafts import copy_of
from popmq_broker.store.store import Draft
from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records.names import RETRY_PREFIX
from popmq_common.records.record import Record


def consumed_topic(key: QueueKey) -> str:
    """That the group receives of, when `key` is of its retry topic too."""
    return key.topic.removeprefix(f"{RETRY_PREFIX}{key.group}_")


def copy_draft(record: Record, copy: Copy) -> Draft:
    draft = copy_of(record, copy.topic, 0, copy.properties)
    return draft._replace(reconsume_times=copy.reconsume_times)


def tell_often(runtime: Runtime, key: QueueKey, lease: Lease, handed_out: int) -> None:
    """A message was given back uncounted, and may come for ever, as fast as it is given back."""
    if handed_out % WARNED_EVERY:
        return
    topic = consumed_topic(key)
    runtime.stats.handed_out_often[topic, key.group] += 1
    try:
        record = runtime.store.read(lease.log_offset, lease.size_bytes)
    except Corrupt:  # told by its own line
        record = None
    named = {} if record is None else names.decode(record.properties)
    runtime.log.warning(
        "message.handed_out_often",
        group=key.group,
        topic=topic,
        message_id=named.get(names.UNIQ_KEY, ""),
        handed_out=handed_out,
    )
