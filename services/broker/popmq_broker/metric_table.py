"""What a broker's /metrics has: name, meaning, labels, and RocketMQ's name where it has the figure.

docs/metrics.md is made of this table. `topic` is the topic as stored: retry topics have rows of
their own.
"""

from popmq_common.metrics.metric import counter, defined, gauge, histogram

_GROUP = ("topic", "consumer_group")

# --- messages, since the start ---

MESSAGES_IN = counter(
    "popmq_messages_in", "Messages stored", "topic", rocketmq="rocketmq_messages_in_total"
)
REPEATED = counter(
    "popmq_repeated_messages",
    "Messages that were sent again and not stored again, because the broker has them",
    "topic",
)
MESSAGES_OUT = counter(
    "popmq_messages_out", "Messages handed out", *_GROUP, rocketmq="rocketmq_messages_out_total"
)
ACKS = counter("popmq_acks", "Acks, by outcome", *_GROUP, "outcome")
CHANGES = counter("popmq_changes", "Changes of the invisible time, by outcome", *_GROUP, "outcome")
NACKS = counter("popmq_nacks", "Nacks, by kind", *_GROUP, "kind")
RENEWED = counter("popmq_renewed_leases", "Leases renewed because their client is alive", *_GROUP)
REVIVED = counter(
    "popmq_revived_messages",
    "Messages copied to a retry topic, because they were nacked or not acked in time",
    *_GROUP,
    rocketmq="rocketmq_pop_revive_retry_messages_total",
)
HANDED_OUT_OFTEN = counter(
    "popmq_handed_out_often",
    "Deliveries that were the 100th, 200th … of a message that is given back uncounted",
    *_GROUP,
)
SENT_BACK = counter(
    "popmq_sent_back_messages",
    "Messages that pull consumers have sent back after a failure",
    *_GROUP,
)
SEND_TO_DLQ = counter(
    "popmq_send_to_dlq_messages",
    "Messages made dead letters",
    *_GROUP,
    rocketmq="rocketmq_send_to_dlq_messages_total",
)
TRANSACTION_CHECKS = counter(
    "popmq_transaction_checks", "Half messages that producers were asked about", "topic"
)
TRANSACTIONS = counter(
    "popmq_transactions",
    "Transactions that ended, by outcome",
    "topic",
    "outcome",
    rocketmq="rocketmq_commit_messages_total, rocketmq_rollback_messages_total",
)

# --- where a group's messages are; stored is the sum of the seven after it without lag ---

REPLACED_PEERS = gauge(
    "popmq_broker_replaced_peers",
    "1: the broker came back with another data directory, and nobody has accepted that",
    "peer",
)
STORED = gauge(
    "popmq_consumer_stored_messages", "Stored in the topic, from its first message on", *_GROUP
)
SETTLED = gauge(
    "popmq_consumer_settled_messages",
    "Acked, made dead letters, filtered out, or copied to the retry topic",
    *_GROUP,
)
READY = gauge(
    "popmq_consumer_ready_messages",
    "Ready to pop",
    *_GROUP,
    rocketmq="rocketmq_consumer_ready_messages",
)
IN_FLIGHT = gauge(
    "popmq_consumer_inflight_messages",
    "Leased to a consumer",
    *_GROUP,
    rocketmq="rocketmq_consumer_inflight_messages",
)
DELAYED = gauge(
    "popmq_consumer_delayed_messages", "Given back, and waiting for their delay", *_GROUP
)
BLOCKED = gauge(
    "popmq_consumer_blocked_messages",
    "Waiting for an earlier message of their message group",
    *_GROUP,
)
EXPIRED = gauge(
    "popmq_consumer_expired_messages",
    "Deleted by retention before the group was done with them",
    *_GROUP,
)
PASSED = gauge(
    "popmq_consumer_damaged_messages",
    "Skipped by the group, because they cannot be read; popmq store rebuild may restore them",
    *_GROUP,
)
STANDING = (STORED, SETTLED, READY, IN_FLIGHT, DELAYED, BLOCKED, EXPIRED)
"""In the order of `MessageCounts`."""
LAG = gauge(
    "popmq_consumer_lag_messages",
    "Ready, leased, delayed and blocked",
    *_GROUP,
    rocketmq="rocketmq_consumer_lag_messages",
)
DEAD_LETTERS = gauge(
    "popmq_dead_letter_messages", "Stored in the dead letters of a group", "consumer_group"
)
ROWS_TOGETHER = gauge(
    "popmq_metric_rows_together",
    "Topics, groups or pairs of them that are added up as `other`",
    "kind",
)

# --- the store ---

DAMAGED = gauge(
    "popmq_damaged_messages",
    "Messages that cannot be read: the record or its queue entry is damaged",
    "topic",
)
FLUSH_SYNC = gauge("popmq_flush_sync", "1: an answer of OK means it is on disk; 0: flush=async")
FLUSH_BEHIND = gauge(
    "popmq_storage_flush_behind_bytes",
    "Bytes that are appended to the log and not synced yet",
    rocketmq="rocketmq_storage_flush_behind_bytes",
)
STORAGE_SIZE = gauge(
    "popmq_storage_size_bytes",
    "Bytes of the CommitLog in use",
    rocketmq="rocketmq_storage_size",
)
APPENDED = counter(
    "popmq_storage_appended_bytes",
    "Bytes of all records ever written to the CommitLog, journal and copies included",
    rocketmq="rocketmq_throughput_in_total",
)
OLDEST_AGE = gauge(
    "popmq_storage_oldest_message_age_seconds",
    "Age of the oldest message in the CommitLog",
    rocketmq="rocketmq_storage_message_reserve_time",
)
DELETED_FILES = counter(
    "popmq_storage_deleted_files",
    "CommitLog files deleted: by age, early because the disk is nearly full, or "
    "although something needed them",
    "reason",
)
FILE_KEPT = gauge(
    "popmq_storage_file_kept",
    "1: this keeps the oldest CommitLog file from being deleted",
    "needed_by",
)
DISK_USED = gauge("popmq_disk_used_ratio", "Use of the disk, 0 to 1, when it was last looked at")
DISK_STATE = gauge("popmq_disk_state", "0: ok; 1: files are deleted early; 2: sends are refused")
INDEX_BEHIND = gauge(
    "popmq_index_behind_bytes",
    "Bytes of the log that the index of keys has not read yet",
    rocketmq="rocketmq_storage_dispatch_behind_bytes",
)
INDEX_STOPPED = gauge("popmq_index_stopped", "1: the index of keys has stopped after an error")
EXPORTS = counter(
    "popmq_exports", "Exports of a snapshot that ended: complete or failed", "outcome"
)
EXPORT_AGE = gauge(
    "popmq_export_age_seconds",
    "Time since the last complete snapshot was exported; no value before the first one",
)
FSYNC = histogram("popmq_fsync_seconds", "Time of one fdatasync")
FSYNC_RECORDS = histogram("popmq_fsync_records", "Records that shared one fdatasync")

# --- leases and revival ---

LEASES = gauge("popmq_leases", "Live leases")
RENEWING_CLIENTS = gauge("popmq_renewing_clients", "Clients whose leases are renewed")
REVIVE_BACKLOG = gauge(
    "popmq_revive_backlog_messages",
    "Due leases that wait for their revival",
    rocketmq="rocketmq_pop_revive_lag",
)
REVIVE_LATENCY = gauge(
    "popmq_revive_latency_seconds",
    "How long the oldest due lease has waited for its revival",
    rocketmq="rocketmq_pop_revive_latency",
)
WAITING_POLLS = gauge("popmq_waiting_polls", "Receives that wait for messages")

# --- the pop buffer; with pop_buffer=durable all but the first stay 0 ---

BUFFER_DURABLE = gauge(
    "popmq_pop_buffer_durable",
    "1: pops and acks survive a crash; 0: pop_buffer=memory",
)
BUFFER_GRANTS = gauge(
    "popmq_pop_buffer_grants",
    "Grants (what one pop took from one queue) in memory alone: a crash redelivers them",
    rocketmq="rocketmq_pop_checkpoint_buffer_size",
)
BUFFER_LEASES = gauge("popmq_pop_buffer_leases", "Messages of these grants, acked ones included")
BUFFER_AGE = gauge("popmq_pop_buffer_age_seconds", "How long the oldest of these grants has waited")
BUFFER_STORED = counter(
    "popmq_pop_buffer_stored",
    "Grants that stayed in memory too long, or had to be written before another "
    "record, and were written",
)
BUFFER_MERGED = counter(
    "popmq_pop_buffer_merged",
    "Grants of which every message was acked in time, and which were never written",
)
BUFFER_BYPASSED = counter(
    "popmq_pop_buffer_bypassed",
    "Grants that were written at once: the lease was too short, or memory had no room for it",
)

# --- what waits for its time ---

TIMERS = gauge(
    "popmq_timer_messages",
    "Delayed messages that wait for their time",
    rocketmq="rocketmq_timing_messages",
)
TIMER_MARKS = gauge(
    "popmq_timer_recall_marks",
    "Marks of recalls, kept until the time of what they recalled",
)
TIMER_LAG = gauge(
    "popmq_timer_lag_seconds",
    "How long the delayed message that is due first has been due",
    rocketmq="rocketmq_timer_dequeue_latency",
)
TIMER_LEVELS = gauge("popmq_timer_level_messages", "Messages that wait for a delay level", "level")
TIMER_ENDED = counter(
    "popmq_timer_ended",
    "Delayed messages whose wait has ended: delivered, recalled, dropped because "
    "their topic no longer exists, or damaged",
    "topic",
    "outcome",
    rocketmq="rocketmq_timer_dequeue_total",
)
HALVES = gauge(
    "popmq_half_messages",
    "Half messages that are not settled",
    "topic",
    rocketmq="rocketmq_half_messages",
)

# --- who is there ---

TOPICS = gauge(
    "popmq_topics",
    "Topics, retry topics and dead letters included",
    rocketmq="rocketmq_topic_number",
)
GROUPS = gauge("popmq_groups", "Consumer groups", rocketmq="rocketmq_consumer_group_number")
PULLING = gauge(
    "popmq_pulling_consumers",
    "Consumers that pull, by group and topic",
    rocketmq="rocketmq_consumer_connections",
)
LOCKED = gauge("popmq_locked_queues", "Queues that a consumer holds by an access lock")
ORDERED = gauge(
    "popmq_ordered_queues", "Queues that a consumer has locked to consume them in order"
)
LOCK_TAKEN = counter(
    "popmq_access_lock_taken", "Queues with an access lock that went to another consumer"
)
LOCK_REFUSED = counter(
    "popmq_access_lock_refused", "Pulls that found their queue held by another consumer"
)

# --- the link ---

LINK_PROXIES = gauge("popmq_link_connections", "Connections of proxies; none in one process")
LINK_CALLS = gauge("popmq_link_calls", "Calls of proxies under way, waiting receives included")
CALL = histogram(
    "popmq_call_seconds",
    "Time of a call in the broker, including the time that it waits",
    "call",
    rocketmq="rocketmq_rpc_latency",
)

# --- replicas; of a broker that has some ---

REPLICA_PRIMARY = gauge(
    "popmq_replica_primary", "1: this replica is primary and serves", "broker", "replica"
)
REPLICA_EPOCH = gauge(
    "popmq_replica_epoch",
    "The epoch that this replica leads or follows; each primary begins one",
    "broker",
)
REPLICA_LOG_END = gauge(
    "popmq_replica_log_end", "Where this replica's log ends, in bytes", "broker"
)
REPLICA_COMMIT_POINT = gauge(
    "popmq_replica_commit_point",
    "Up to where this replica knows the log to be committed, in bytes",
    "broker",
)
REPLICAS_IN_SYNC = gauge(
    "popmq_replicas_in_sync",
    "Replicas that have everything, the primary among them; it tells",
    "broker",
)
REPLICAS_NEEDED = gauge(
    "popmq_replicas_needed",
    "With fewer in sync nothing is committed; the primary tells",
    "broker",
)
REPLICA_BEHIND = gauge(
    "popmq_replica_behind_bytes",
    "What a follower has not on disk yet; the primary tells",
    "broker",
    "replica",
)
OF_REPLICAS = (
    REPLICA_PRIMARY,
    REPLICA_EPOCH,
    REPLICA_LOG_END,
    REPLICA_COMMIT_POINT,
    REPLICAS_IN_SYNC,
    REPLICAS_NEEDED,
    REPLICA_BEHIND,
)

ALL = defined(vars())
