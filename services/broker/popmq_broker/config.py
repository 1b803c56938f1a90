"""Every knob of a broker: variable POPMQ_BROKER_ and the field's name in capitals."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from popmq_common.units import GiB, MiB


class Flush(StrEnum):
    SYNC = "sync"
    ASYNC = "async"


class PopBuffer(StrEnum):
    DURABLE = "durable"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    data_dir: Path
    """Directory of all files: CommitLog, queues, configuration. Made if it does not exist."""
    name: str = "broker-a"
    """Name of this broker, unique in the cluster; part of every receipt handle."""
    cluster: str = "PopMQ"
    """Name of the cluster; part of the revive topic's name."""
    host: str = "127.0.0.1"
    """Address the link to the proxies listens on."""
    port: int = 10911
    """Port of the link; 0: any free one."""
    advertise: str = ""
    """host:port that proxies reach the link at; empty: host and port."""
    nameservers: tuple[str, ...] = ()
    """Nameservers to register with, host:port separated by commas."""
    heartbeat_ms: int = 5_000
    """How often this broker reports to nameservers that it lives; at least three times in their
    expiry_ms. RocketMQ's brokers do it every 30,000 ms."""
    link_secret: str = ""
    """Shared secret, 16 random bytes or more: proxies prove that they know it, and this broker
    proves it to them and to nameservers. Empty: none."""
    link_secret_file: Path | None = None
    """File with the same, instead of it."""
    link_tls_cert: Path | None = None
    """Certificate chain of the link, PEM, naming the host that proxies connect to; none: no TLS.
    Nameservers that ask for a certificate get it too."""
    link_tls_key: Path | None = None
    """Private key of link_tls_cert, PEM; its mode is 0600."""
    link_tls_client_ca: Path | None = None
    """Authority, PEM, that must have signed the proxies' certificates; none: they need none."""
    nameserver_tls_ca: Path | None = None
    """Authority, PEM, that signed the nameservers' certificates; none: they are asked without
    TLS."""
    health_port: int = 0
    """Port of the health service of gRPC, for probes; 0: none."""
    metrics_port: int = 0
    """Port of /metrics; 0: none."""
    metrics_tls_cert: Path | None = None
    """Certificate chain of the page, PEM: then it is https. None: it is http."""
    metrics_tls_key: Path | None = None
    """Private key of metrics_tls_cert, PEM; its mode is 0600."""
    metrics_tls_client_ca: Path | None = None
    """Authority, PEM, that must have signed the certificates of the page's readers; none: anyone
    may who reaches the port."""
    log_level: str = "info"
    """debug, info, warning or error."""
    flush: Flush = Flush.SYNC
    """sync: an answer of OK means it is on disk. async: a crash loses the last flush interval."""
    async_flush_interval_ms: int = 500
    """With flush=async: how often the log is brought to disk."""
    segment_bytes: int = 1 * GiB
    """Size of a CommitLog file. Files are sparse: disk is used as messages come."""
    queue_file_bytes: int = 6_000_000
    """Size of a ConsumeQueue file; RocketMQ's 300,000 entries of 20 bytes."""
    index: bool = True
    """Write RocketMQ's index files, by which messages are found by key and by message id."""
    index_slots: int = 5_000_000
    """Hash slots of an index file, RocketMQ's maxHashSlotNum; those of the newest file are in
    memory, 4 bytes each. A change makes the index again from the log."""
    index_entries: int = 20_000_000
    """Entries of an index file, RocketMQ's maxIndexNum."""
    disk_reserve_bytes: int = 256 * MiB
    """Free space below which sends are refused, kept for acks and leases."""
    disk_clean_percent: int = 85
    """Use of the disk above which old CommitLog files are deleted before their time; 100: never."""
    disk_refuse_percent: int = 90
    """Use of the disk above which sends are refused, until it is down to disk_clean_percent, and
    CommitLog files go even if something in them is still needed; 100: never."""
    retention_ms: int = 48 * 3_600_000
    """How long messages are kept, consumed or not. CommitLog files go as a whole, when their
    newest message is that old; the one being written never does."""
    retention_hours_utc: tuple[int, ...] = ()
    """Hours of the day, in UTC, when files may be deleted by age, separated by commas; empty: at
    any time."""
    retention_interval_ms: int = 10_000
    """How often files that may be deleted are looked for."""
    retention_files_max: int = 10
    """CommitLog files deleted at a time; the next ones an interval later."""
    revive_queues: int = 8
    """Queues of the revive topic, which journals leases and acks."""
    create_groups: bool = False
    """Make a consumer group, with the defaults, when it is first used. popmq standalone: True."""
    first_use_topics_max: int = 1_000
    """The first use of a topic (POPMQ_PROXY_CREATE_TOPICS) creates it only while there are fewer
    topics than this, however they were made; popmq topic create may go on up to topics_max."""
    first_use_groups_max: int = 1_000
    """The same for groups, and popmq group create."""
    pop_buffer: PopBuffer = PopBuffer.DURABLE
    """durable: what was popped and acked outlives a crash. memory: what is acked within
    pop_buffer_stay_ms is never written, and a crash sends it again. FIFO groups: always durable."""
    pop_buffer_stay_ms: int = 10_000
    """With pop_buffer=memory: how long messages may be held before that is written down."""
    pop_buffer_scan_ms: int = 5
    """With pop_buffer=memory: how long grants that stayed too long linger before they are stored
    together."""
    pop_buffer_max: int = 200_000
    """With pop_buffer=memory: messages of grants that are not written down; more are popped as with
    durable."""
    in_flight_max: int = 10_000
    """Messages a group may hold unacknowledged of one queue; more are refused until it acks."""
    renewed_lease_ms_max: int = 3 * 3_600_000
    """How long after its pop a lease may still be renewed by signs of life of its client."""
    goodbye_grace_ms: int = 1_000
    """How long after its client's goodbye a renewed lease ends; acks under way still count."""
    wake_gap_ms: int = 5
    """How long arrivals in a steady stream linger before they wake a waiting poll together; one
    that comes alone wakes at once. 0: each wakes one."""
    wake_gap_ms_max: int = 20
    """How long they linger at most: while as many as two come in each wake_gap_ms, and 32 in all
    have not. A longer time costs less CPU at some hundred messages a second and above."""
    waiting_polls_max: int = 100_000
    """Long polls that may wait at a time; more are refused."""
    waiting_polls_per_group_max: int = 20_000
    """Long polls of one group that may wait at a time; more are refused."""
    access_lock_idle_polls: int = 3
    """How often in a row another consumer asks for a queue of which nothing is outstanding until it
    gets it; for groups with an access lock."""
    queue_lock_ms: int = 60_000
    """How long a consumer that consumes in order has a queue without asking again; RocketMQ's
    rebalance.lockMaxLiveTime."""
    transaction_immunity_ms: int = 6_000
    """How long after a half message nobody is asked about it, unless its sender wants longer."""
    transaction_check_interval_ms: int = 30_000
    """How often a producer is asked about a half message that is not settled."""
    transaction_checks_max: int = 15
    """How often at most; then it is given up, and lies in TRANS_CHECK_MAX_TIME_TOPIC."""
    transaction_age_ms_max: int = 72 * 3_600_000
    """Age at which a half message is given up though nobody could be asked."""
    half_messages_max: int = 100_000
    """Half messages that are not settled; more are refused."""
    half_move_ms: int = 3_600_000
    """Age at which a half message that keeps an old file of the log is written again."""
    settled_transactions_max: int = 10_000
    """Settled transactions that are remembered, so that settling them again finds the same."""
    topics_max: int = 20_000
    """Topics that clients have made; more are refused."""
    inner_topics_max: int = 100_000
    """Retry topics, dead letters and the broker's own topics; more are refused."""
    groups_max: int = 20_000
    """Consumer groups; more are refused."""
    metric_rows_max: int = 1_000
    """Topics, groups, and pairs of them that /metrics tells apart; those that come later are added
    up as `other`."""
    offsets_interval_ms: int = 5_000
    """How often the committed offsets are written; what came since is in the revive topic."""
    timers_max: int = 2_000_000
    """Messages that may wait for their time, some 20 bytes of memory each; more are refused."""
    timer_snapshot_interval_ms: int = 10_000
    """How often what waits is written down, at most; a start after a crash reads the log from
    there."""
    timer_roll_ms: int = 24 * 3_600_000
    """Age at which the record of a waiting message is written again, so that old files of the log
    can be deleted; half of how long the log is kept."""
    export_dir: str = ""
    """Where snapshots for the audit are written, below a folder of the broker's name: a directory,
    or a URL that fsspec knows; empty: none are. Needs pip install 'popmq[export]'."""
    export_rows_per_s: int = 5_000
    """How many records a second an export reads at most; 0: no limit. One that goes on from an
    earlier snapshot is at least twice as fast as the log grew since."""
    export_bytes_per_s: int = 64 * MiB
    """How many bytes of the log a second, with the same exception; 0: no limit."""
    export_chain_max: int = 144
    """Snapshots that go on from each other before one is whole again."""
    export_keep: int = 2
    """Whole snapshots that are kept, each with those that go on from it; 0: all."""
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """What RocketMQ's delay levels mean, level 1 first; units s, m, h, d."""
