"""The tables of a snapshot and of its audit: names, types and whether a value may be missing.

A snapshot (written by `export`, one Parquet file each):

    commitlog_index   one row per record of the CommitLog, those of the journal included
    pop_checkpoints   one row per leased message: who was given what, until when. `attempt`: how
                      often it was handed out, of a FIFO group alone
    position_moves    one row per checkpoint without messages: a position set outright, which voids
                      the leases before it; `to_offset` −1 forgets the queue
    passes            one row per record that says how a group goes over messages from an offset on
    pop_acks          one row per ended lease. `expired`: not acked, a copy was written for
                      redelivery; `previous_log_offset` is the record right before, where it lies
    consume_offsets   the committed offsets as the broker last wrote them: next to hand out
    revive_log        one row per record of the journal. `kind`: checkpoint, move, ack, expiry, or
                      other
    retry_index       one row per copy for redelivery
    dlq_index         one row per dead letter, and why
    group_settings    one row per change of a group's settings, and per time they are written again;
                      they hold for all that lies behind it, until the next one
    owners            the same of topics and groups (`kind`): whose it is from there on
    client_reports    one row per report of what a client has counted
    client_counts     one row per outcome, topic, group and minute of such a report
    redrives          one row per dead letter that was sent again
    timer_index       one row per record that waits for its time. `kind`: parked (`due_ms`), level
                      (`level`, due by its store time), recall (a mark, which is never delivered)
    timer_ends        what ends such a wait. `kind`: delivered, rolled (written again), recalled
    half_messages     one row per half message; `origin_offset` is the first of those written again
    half_ends         what ended one. `outcome`: committed, rolled back, given up, moved (written
                      again), unknown (RocketMQ's op records do not tell)
    queue_faults      one row per record whose entry in the queue's files is missing, or another one
    queue_watermarks  each queue's oldest and next offset when the snapshot was taken

Of a snapshot that goes on from another one, consume_offsets and queue_watermarks are whole; the
others have the rows of the records between `log_from` and `log_end` of its manifest.

An audit (written by `reconcile`; a partition `snapshot_id` holds what is known of the messages
that this snapshot brought, which is its epoch; later snapshots may open it again):

    recon_message_state   one row per message and group that was given it: where it stands
    recon_gaps            what is missing          both: `offset_count` offsets
    recon_duplicates      what is there twice      from `queue_offset` on
    recon_revive          one row per queue of the revive topic: how far, how old; the leases that
                          are open, and how many were made since the run before
    recon_balance         per group, topic and minute in which the messages were stored:
                          stored = acked … not_leased; then why messages were handed out again
    recon_latency         per group, topic, minute and span (see `audit.latency`)
    recon_times           per group, topic, span and attempt: how many messages took `bin_ms`
    recon_traffic         per topic and minute, how much was stored
    recon_run             the verdict of the run on this snapshot, and what it rests on

Types are Spark's simple names. Times are milliseconds since 1970, `*_offset` count from 0;
`log_offset` is a place in the log and so orders everything that happened.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

SCHEMA_VERSION: Final = 3


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

_PLACE: Final = (
    Column("topic", "string"),
    Column("queue_id", "int"),
    Column("queue_offset", "bigint"),
    Column("log_offset", "bigint"),
    Column("store_timestamp_ms", "bigint"),
    Column("message_id", "string", nullable=True),
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
        Column("message_group", "string", nullable=True),
        Column("more_properties", "string", nullable=True),  # as they lie in the record
    ),
    "pop_checkpoints": (
        *_QUEUE,
        Column("queue_offset", "bigint"),
        Column("pop_time_ms", "bigint"),
        Column("generation", "int"),
        Column("invisible_ms", "bigint"),
        Column("due_ms", "bigint"),
        Column("start_offset", "bigint"),
        Column("attempt", "int", nullable=True),
        *_JOURNAL,
    ),
    "position_moves": (
        *_QUEUE,
        Column("to_offset", "bigint"),
        Column("moved_at_ms", "bigint"),
        *_JOURNAL,
    ),
    "passes": (
        *_QUEUE,
        Column("from_offset", "bigint"),
        Column("filter_kind", "string", nullable=True),  # none: everything is handed out
        Column("filter", "string", nullable=True),
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
    "consume_offsets": (
        *_QUEUE,
        Column("next_offset", "bigint"),
        Column("filter_kind", "string", nullable=True),  # the filter in force, if there is one
        Column("filter", "string", nullable=True),
    ),
    "revive_log": (
        *_JOURNAL,
        Column("store_timestamp_ms", "bigint"),
        Column("kind", "string"),
        Column("topic", "string", nullable=True),  # of `other` nothing of the following is known
        Column("consumer_group", "string", nullable=True),
        Column("queue_id", "int", nullable=True),
        Column("start_offset", "bigint", nullable=True),
        Column("message_count", "int"),
        Column("pop_time_ms", "bigint", nullable=True),
        Column("generation", "int", nullable=True),
        Column("invisible_ms", "bigint", nullable=True),  # of checkpoints
        Column("nack_kind", "string", nullable=True),
        Column("reason", "string", nullable=True),
        Column("renewed_by", "string", nullable=True),
        Column("broker", "string", nullable=True),
    ),
    "retry_index": (
        *_PLACE,
        Column("reconsume_times", "int"),
        Column("first_pop_time_ms", "bigint", nullable=True),
        Column("reason", "string", nullable=True),
        Column("origin_queue_id", "int", nullable=True),
    ),
    "dlq_index": (
        *_PLACE,
        Column("consumer_group", "string"),
        Column("origin_topic", "string", nullable=True),
        Column("origin_message_id", "string", nullable=True),
        Column("reason", "string", nullable=True),
        Column("attempts", "int", nullable=True),
    ),
    "group_settings": (
        Column("consumer_group", "string"),
        Column("is_deleted", "boolean"),
        Column("is_fifo", "boolean", nullable=True),  # these are missing where it was deleted
        Column("max_attempts", "int", nullable=True),
        Column("max_hand_outs", "int", nullable=True),
        Column("consume_from", "string", nullable=True),
        Column("retry_policy", "string", nullable=True),  # JSON, as in subscriptionGroup.json
        Column("log_offset", "bigint"),
        Column("store_timestamp_ms", "bigint"),
    ),
    "owners": (
        Column("kind", "string"),
        Column("name", "string"),
        Column("owner", "string", nullable=True),  # none: nobody's, or it was deleted
        Column("log_offset", "bigint"),
        Column("store_timestamp_ms", "bigint"),
    ),
    "client_reports": (
        Column("client_id", "string"),
        Column("id_prefix", "string"),
        Column("sequence", "bigint"),
        Column("from_ms", "bigint"),
        Column("until_ms", "bigint"),
        Column("is_last", "boolean"),
        Column("uncounted", "bigint"),
        Column("log_offset", "bigint"),
        Column("store_timestamp_ms", "bigint"),
    ),
    "client_counts": (
        Column("client_id", "string"),
        Column("sequence", "bigint"),
        Column("counted_as", "string"),
        Column("topic", "string"),
        Column("consumer_group", "string", nullable=True),  # none: of what was sent
        Column("minute_ms", "bigint"),
        Column("message_count", "bigint"),
        Column("digest", "bigint"),
        Column("log_offset", "bigint"),
    ),
    "redrives": (
        Column("consumer_group", "string"),
        Column("dead_letter_offset", "bigint"),
        Column("log_offset", "bigint"),
        Column("store_timestamp_ms", "bigint"),
        Column("previous_log_offset", "bigint", nullable=True),
    ),
    "timer_index": (
        *_PLACE,
        Column("kind", "string"),
        Column("due_ms", "bigint", nullable=True),
        Column("level", "int", nullable=True),
        Column("real_topic", "string", nullable=True),
        Column("real_queue_id", "int", nullable=True),
        Column("roll_count", "int"),
    ),
    "timer_ends": (
        Column("kind", "string"),
        Column("level", "int", nullable=True),  # of a delay level; else the timer's topic is meant
        Column("ended_offset", "bigint"),
        Column("topic", "string"),
        Column("queue_id", "int"),
        Column("queue_offset", "bigint"),
        Column("log_offset", "bigint"),
    ),
    "half_messages": (
        *_PLACE,
        Column("real_topic", "string", nullable=True),
        Column("real_queue_id", "int", nullable=True),
        Column("origin_offset", "bigint"),
        Column("origin_log_offset", "bigint", nullable=True),
        Column("check_count", "int"),
    ),
    "half_ends": (
        Column("half_offset", "bigint"),
        Column("outcome", "string"),
        Column("origin_offset", "bigint", nullable=True),
        Column("origin_log_offset", "bigint", nullable=True),
        Column("log_offset", "bigint"),
        Column("store_timestamp_ms", "bigint"),
        Column("previous_log_offset", "bigint", nullable=True),
    ),
    "queue_faults": (
        Column("kind", "string"),
        Column("topic", "string"),
        Column("queue_id", "int"),
        Column("queue_offset", "bigint"),
        Column("log_offset", "bigint"),
    ),
    "queue_watermarks": (
        Column("topic", "string"),
        Column("queue_id", "int"),
        Column("min_offset", "bigint"),
        Column("max_offset", "bigint"),
    ),
}

ADDED_TABLES: Final = frozenset(
    {"passes", "queue_faults", "group_settings", "owners", "client_reports", "client_counts"}
)
"""Older versions do not write them: where a manifest does not name one, it has no rows."""

STATE_TABLES: Final = frozenset({"consume_offsets", "queue_watermarks"})
"""How things are at the snapshot's end; the other tables tell what happened."""

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
        Column("minute_ms", "bigint"),
        Column("stored", "bigint"),
        Column("acked", "bigint"),
        Column("in_flight", "bigint"),
        Column("retried", "bigint"),
        Column("dead", "bigint"),
        Column("voided", "bigint"),
        Column("overdue", "bigint"),
        Column("uncopied", "bigint"),
        Column("not_leased", "bigint"),
        Column("again_after_expiry", "bigint"),
        Column("again_after_move", "bigint"),
    ),
    "recon_latency": (
        Column("topic", "string"),
        Column("consumer_group", "string"),
        Column("minute_ms", "bigint"),
        Column("span", "string"),
        Column("message_count", "bigint"),
        Column("p50_ms", "bigint"),
        Column("p90_ms", "bigint"),
        Column("p99_ms", "bigint"),
        Column("max_ms", "bigint"),
    ),
    "recon_times": (
        Column("topic", "string"),
        Column("consumer_group", "string"),
        Column("span", "string"),
        Column("attempt", "int"),
        Column("bin_ms", "bigint"),
        Column("message_count", "bigint"),
    ),
    "recon_traffic": (
        Column("topic", "string"),
        Column("minute_ms", "bigint"),
        Column("stored", "bigint"),
        Column("stored_bytes", "bigint"),
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
        Column("watermark", "bigint", nullable=True),
        Column("judged_epochs", "string"),
        Column("signature", "string"),
    ),
}

LEDGER_TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "spans": (
        Column("topic", "string"),
        Column("queue_id", "int"),
        Column("epoch", "int"),
        Column("start_offset", "bigint"),
        Column("first_offset", "bigint"),
        Column("last_offset", "bigint"),
    ),
    "faults": _FINDING,
    "moves": SNAPSHOT_TABLES["position_moves"],
    "begins": (*_QUEUE, Column("from_offset", "bigint"), Column("log_offset", "bigint")),
    "positions": SNAPSHOT_TABLES["consume_offsets"],
}
"""What a run leaves for the next one: of each queue, the offsets that an epoch has; what was found
of the log itself, which only the run sees that reads it first; its position moves; where groups
began in queues; the positions then."""


def names(table: str) -> list[str]:
    columns = SNAPSHOT_TABLES.get(table) or AUDIT_TABLES[table]
    return [column.name for column in columns]
