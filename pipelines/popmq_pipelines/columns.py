"""The tables of a snapshot and of its audit: names, types and whether a value may be missing.

A snapshot (written by `export`, one Parquet file each):

    commitlog_index   one row per record of the CommitLog, those of the journal included
    pop_checkpoints   one row per leased message: who was given what, until when
    position_moves    one row per checkpoint without messages: a position set outright, which voids
                      the leases before it; `to_offset` −1 forgets the queue
    pop_acks          one row per ended lease. `expired`: not acked, a copy was written for
                      redelivery; `previous_log_offset` is the record right before, where it lies
    consume_offsets   the committed offsets as the broker last wrote them: next to hand out

An audit (written by `reconcile`):

    recon_message_state   one row per message and group that was given it: where it stands
    recon_gaps            what is missing          both: the first 1,000, `offset_count` offsets
    recon_duplicates      what is there twice      from `queue_offset` on
    recon_revive          one row per queue of the revive topic: how far, how old
    recon_balance         per group and topic: stored = the sum of the columns behind it
    recon_run             the verdict, and what it rests on

Types are Spark's simple names. Times are milliseconds since 1970, `*_offset` count from 0;
`log_offset` is a place in the log and so orders everything that happened.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

SCHEMA_VERSION: Final = 1


class Column(NamedTuple):
    name: str
    kind: str
    nullable: bool = False


_QUEUE: Final = (
    Column("topic", "string"),
    Column("consumer_group", "string"),
    Column("queue_id", "int"),
)
_JOURNAL: Final = (
    Column("revive_queue_id", "int"),
    Column("revive_offset", "bigint"),
    Column("log_offset", "bigint"),
)

SNAPSHOT_TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "commitlog_index": (
        Column("topic", "string"),
        Column("queue_id", "int"),
        Column("queue_offset", "bigint"),
        Column("log_offset", "bigint"),
        Column("size_bytes", "int"),
        Column("store_timestamp_ms", "bigint"),
        Column("born_timestamp_ms", "bigint"),
        Column("message_id", "string", nullable=True),
        Column("tags", "string", nullable=True),
        Column("reconsume_times", "int"),
        Column("sys_flag", "int"),
        Column("body_crc", "int"),
        Column("first_pop_time_ms", "bigint", nullable=True),  # only copies for redelivery have it
    ),
    "pop_checkpoints": (
        *_QUEUE,
        Column("queue_offset", "bigint"),
        Column("pop_time_ms", "bigint"),
        Column("generation", "int"),
        Column("invisible_ms", "bigint"),
        Column("due_ms", "bigint"),
        Column("start_offset", "bigint"),
        *_JOURNAL,
    ),
    "position_moves": (
        *_QUEUE,
        Column("to_offset", "bigint"),
        Column("moved_at_ms", "bigint"),
        *_JOURNAL,
    ),
    "pop_acks": (
        *_QUEUE,
        Column("queue_offset", "bigint"),
        Column("pop_time_ms", "bigint"),
        Column("generation", "int"),
        Column("expired", "boolean"),
        *_JOURNAL,
        Column("previous_log_offset", "bigint", nullable=True),
    ),
    "consume_offsets": (*_QUEUE, Column("next_offset", "bigint")),
}

_FINDING: Final = (
    Column("kind", "string"),
    Column("topic", "string"),
    Column("consumer_group", "string", nullable=True),
    Column("queue_id", "int"),
    Column("queue_offset", "bigint"),
    Column("offset_count", "bigint"),
    Column("generation", "int", nullable=True),
    Column("pop_time_ms", "bigint", nullable=True),
    Column("due_ms", "bigint", nullable=True),
    Column("log_offset", "bigint", nullable=True),
)

AUDIT_TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "recon_message_state": (
        *_QUEUE,
        Column("queue_offset", "bigint"),
        Column("state", "string"),
        Column("until_ms", "bigint", nullable=True),
        Column("lease_count", "bigint"),
        Column("pop_time_ms", "bigint"),
        Column("generation", "int"),
        Column("log_offset", "bigint"),
    ),
    "recon_gaps": _FINDING,
    "recon_duplicates": _FINDING,
    "recon_revive": (
        Column("queue_id", "int"),
        Column("end_offset", "bigint"),
        Column("replay_from_offset", "bigint", nullable=True),
        Column("lag_count", "bigint", nullable=True),
        Column("lease_count", "bigint"),
        Column("in_flight_count", "bigint"),
        Column("overdue_count", "bigint"),
        Column("orphan_ack_count", "bigint"),
        Column("oldest_open_age_ms", "bigint", nullable=True),
    ),
    "recon_balance": (
        Column("topic", "string"),
        Column("consumer_group", "string"),
        Column("stored", "bigint"),
        Column("acked", "bigint"),
        Column("in_flight", "bigint"),
        Column("retried", "bigint"),
        Column("dead", "bigint"),
        Column("voided", "bigint"),
        Column("overdue", "bigint"),
        Column("uncopied", "bigint"),
        Column("not_leased", "bigint"),
    ),
    "recon_run": (
        Column("verdict", "string"),
        Column("problems", "string"),
        Column("finding_count", "bigint"),
        Column("lease_count", "bigint"),
        Column("record_count", "bigint"),
        Column("log_start", "bigint", nullable=True),
        Column("log_end", "bigint", nullable=True),
        Column("as_of_ms", "bigint", nullable=True),
        Column("grace_ms", "bigint"),
        Column("broker", "string", nullable=True),
        Column("cluster", "string", nullable=True),
        Column("code_version", "string"),
        Column("manifest_sha256", "string", nullable=True),
    ),
}


def names(table: str) -> list[str]:
    columns = SNAPSHOT_TABLES.get(table) or AUDIT_TABLES[table]
    return [column.name for column in columns]
