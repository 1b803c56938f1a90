"""The log tells that an operator has forced a primary, which may lack what was committed.

It is the first record of the first epoch in which anything is stored after that. So a primary that
finds nothing stored since then writes it, before it serves, and any other knows that it is there.

The record lies in the one queue of `rmq_sys_popmq_forced`. Its body is JSON:

    {"e": epoch that was forced, "r": replica, "l": where the replica's log ended}
"""

import json
from typing import Final

from popmq_broker.core.replication.epochs import Epochs
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.store.queues.drafts import own_draft
from popmq_broker.store.store import Store
from popmq_common.errors import DiskFull
from popmq_common.process.logs import Log
from popmq_common.records.names import FORCED_TOPIC

_TAG: Final = "forced"


def write(store: Store, record: GroupRecord, epochs: Epochs, now_ms: int, log: Log) -> None:
    """`record`: by which this replica is primary; its epoch has begun in `epochs`. The other
    replicas get the record as any other. A disk that is full leaves it to the next primary."""
    if not is_owed(record, epochs, store.log_end):
        return
    log.error("replica.forced", epoch=record.forced_epoch, log_end=store.log_end)
    body = {"e": record.forced_epoch, "r": record.primary, "l": store.log_end}
    text = json.dumps(body, separators=(",", ":")).encode()
    try:
        store.append([own_draft(FORCED_TOPIC, _TAG, text, now_ms)], now_ms, system=True)
    except DiskFull as full:
        log.warning("replica.forced_not_written", reason=str(full))


def is_owed(record: GroupRecord, epochs: Epochs, log_end: int) -> bool:
    """Nothing was stored since a primary was forced."""
    since = [one.start for one in epochs.starts if one.epoch > record.forced_epoch]
    return record.forced_epoch > 0 and bool(since) and since[0] == log_end
