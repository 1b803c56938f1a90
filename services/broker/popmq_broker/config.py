"""Every knob of a broker: variable POPMQ_BROKER_ and the field's name in capitals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from popmq_common.process.config import sources_field
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
    """Directory of all the broker's files: CommitLog, queues, configuration. The broker creates it
    if it does not exist."""
    name: str = "broker-a"
    """Name of this broker, which is unique in the cluster. It is part of every receipt handle."""
    cluster: str = "PopMQ"
    """Name of the cluster. It is part of the revive topic's name."""
    host: str = "127.0.0.1"
    """Address that the link listens on. The link is the connection to the proxies."""
    port: int = 10911
    """Port of the link. 0 means any free port."""
    advertise: str = ""
    """host:port under which proxies reach the link. If it is empty, host and port are used."""
    nameservers: tuple[str, ...] = ()
    """Nameservers to register with, as host:port, separated by commas."""
    heartbeat_ms: int = 5_000
    """How often this broker sends a heartbeat to the nameservers. It must be at most a third of
    their expiry_ms. RocketMQ's brokers send one every 30,000 ms."""
    link_socket: bool = True
    """Whether proxies of this machine reach the link by a Unix socket, which takes less CPU time
    than TCP when load is light. They do so on Linux, if the address under which they know this
    broker is the one that it listens on, and if the link has no TLS. Else they use the port."""
    link_secret: str = field(default="", repr=False)
    """The link's secret: 16 random bytes or more. Proxies prove to this broker that they know it,
    and this broker proves it to them and to the nameservers. Empty means that there is no
    secret."""
    link_secret_file: Path | None = None
    """A file with the link's secret, instead of link_secret."""
    link_tls_cert: Path | None = None
    """Certificate chain of the link and of the health service, as a PEM file, for the host name
    that proxies connect to. If it is not set, neither has TLS. Nameservers that ask for a
    certificate get this one too."""
    link_tls_key: Path | None = None
    """Private key of link_tls_cert, as a PEM file with the mode 0600."""
    link_tls_client_ca: Path | None = None
    """PEM file with the authority that must have signed the certificates of proxies and probes. If
    it is not set, they need no certificate."""
    nameserver_tls_ca: Path | None = None
    """PEM file with the authority that signed the nameservers' certificates. If it is not set, the
    broker connects to them without TLS."""
    health_port: int = 0
    """Port of gRPC's health service, for probes. 0 means that there is none. It speaks TLS, and
    asks for certificates, as the link does."""
    metrics_port: int = 0
    """Port of /metrics. 0 means that there is no such page."""
    metrics_tls_cert: Path | None = None
    """Certificate chain of /metrics, as a PEM file. If it is set, the page is served with https,
    else with http."""
    metrics_tls_key: Path | None = None
    """Private key of metrics_tls_cert, as a PEM file with the mode 0600."""
    metrics_tls_client_ca: Path | None = None
    """PEM file with the authority that must have signed the certificates of those who read
    /metrics. If it is not set, anyone who reaches the port may read it."""
    shards: int = 1
    """How many processes this broker has, at most 64. Each is a broker with a log of its own, named
    NAME, NAME-1 and so on, whose link has the port after that of the one before. With fewer shards
    than before, those that are too many deliver what they have and take nothing new."""
    replica: str = ""
    """Name of this process among the replicas of the broker, unique among them; empty: the broker
    has none, and this process is all of it."""
    register: str = ""
    """What says which replica is primary, as a URL: etcd://HOST:PORT,HOST:PORT, with TLS
    etcds://…, or file:///PATH for replicas of one machine. Every replica of the cluster has the
    same."""
    register_user: str = ""
    """User of etcd; empty: none."""
    register_password_file: Path | None = None
    """File with that user's password; its mode is 0600."""
    register_tls_ca: Path | None = None
    """Authority, PEM, that signed etcd's certificates, with etcds://…; none: those of the
    system."""
    register_tls_cert: Path | None = None
    """Certificate chain, PEM, shown to an etcd that asks for one; none: none is."""
    register_tls_key: Path | None = None
    """Private key of register_tls_cert, PEM; its mode is 0600."""
    min_in_sync: int = 2
    """How many replicas must have a message on disk before it is answered. It is set by the one
    that founds the group."""
    replica_lag_ms: int = 3_000
    """How long a replica in sync may be behind or silent before the others go on without it."""
    primary_lease_ms: int = 3_000
    """How long the primary may be silent before another replica takes over."""
    catch_up_bytes_per_s: int = 16 * MiB
    """How fast a replica that is far behind copies the log, unless the log grows faster than half
    of this. 0 means as fast as it can."""
    lease_gap_ms_max: int = 60_000
    """When a replica becomes primary because the one before has failed, open leases get the time
    added in which there was no primary, this much at most. 0 means none."""
    replica_tls_ca: Path | None = None
    """Authority, PEM, that signed the replicas' link certificates; none: they connect without
    TLS."""
    log_level: str = "info"
    """debug, info, warning or error."""
    flush: Flush = Flush.SYNC
    """sync: an answer of OK means that the data is on disk. async: a crash loses what was answered
    since the last flush, which takes place every async_flush_interval_ms."""
    async_flush_interval_ms: int = 500
    """With flush=async: how often the log is synced to disk."""
    segment_bytes: int = 1 * GiB
    """Size of a CommitLog file. The files are sparse: they occupy disk space only as messages are
    stored."""
    queue_file_bytes: int = 6_000_000
    """Size of a ConsumeQueue file. The default has room for 300,000 entries of 20 bytes, as in
    RocketMQ."""
    index: bool = True
    """Whether to write RocketMQ's index files. Searches find messages by key and by message id in
    them."""
    index_slots: int = 5_000_000
    """Hash slots of an index file (RocketMQ's maxHashSlotNum). Those of the newest file are in
    memory, with 4 bytes each. If you change the number, the broker rebuilds the index from the
    log."""
    index_entries: int = 20_000_000
    """Entries of an index file (RocketMQ's maxIndexNum)."""
    disk_reserve_bytes: int = 256 * MiB
    """When less than this is free, sends are refused. The rest is kept for acks and leases."""
    disk_clean_percent: int = 85
    """When more of the disk is used, old CommitLog files are deleted before their retention time
    ends. 100 means never."""
    disk_refuse_percent: int = 90
    """When more of the disk is used, sends are refused until usage is down to disk_clean_percent,
    and CommitLog files are deleted even if something in them is still needed. 100 means never."""
    retention_ms: int = 48 * 3_600_000
    """How long messages are kept, consumed or not. A CommitLog file is deleted as a whole, when its
    newest message is that old. The file that is being written is never deleted."""
    retention_hours_utc: tuple[int, ...] = ()
    """Hours of the day, in UTC and separated by commas, in which files may be deleted by age. Empty
    means at any time."""
    retention_interval_ms: int = 10_000
    """How often the broker looks for files that may be deleted."""
    retention_files_max: int = 10
    """How many CommitLog files are deleted at a time. The next ones follow after
    retention_interval_ms."""
    revive_queues: int = 8
    """Number of queues of the revive topic, the journal of leases and acks."""
    create_groups: bool = False
    """Whether a consumer group is created, with default settings, when it is first used. popmq
    standalone sets it to True."""
    drains: bool = False
    """Whether this broker takes no new messages from clients, whatever its permission says; it
    still delivers those that it has."""
    first_use_topics_max: int = 1_000
    """At this number of topics, first use (POPMQ_PROXY_CREATE_TOPICS) creates no more. All topics
    count, however they were created. popmq topic create goes on up to topics_max."""
    first_use_groups_max: int = 1_000
    """At this number of groups, first use creates no more. All groups count, however they were
    created. popmq group create goes on up to groups_max."""
    pop_buffer: PopBuffer = PopBuffer.DURABLE
    """durable: pops and acks survive a crash. memory: messages that are acked within
    pop_buffer_stay_ms are never written to the journal, and a crash redelivers them. FIFO groups
    are always durable."""
    pop_buffer_stay_ms: int = 10_000
    """With pop_buffer=memory: how long a lease stays in memory before it is written to the
    journal."""
    pop_buffer_scan_ms: int = 5
    """With pop_buffer=memory: how often the broker looks for leases that have stayed too long.
    Those that it finds are written together."""
    pop_buffer_max: int = 200_000
    """With pop_buffer=memory: how many leased messages may be in memory alone. Further pops are
    written at once, as with durable."""
    in_flight_max: int = 10_000
    """How many messages of one queue a group may hold without an ack. Further receives from the
    queue are refused until the group acks some."""
    renewed_lease_ms_max: int = 3 * 3_600_000
    """How long after its pop a lease may be renewed by its client's heartbeats."""
    goodbye_grace_ms: int = 1_000
    """How long after its client has terminated a renewed lease ends. Acks that are under way until
    then still count."""
    wake_gap_ms: int = 5
    """How long messages that arrive in a steady stream gather before they wake a waiting receive
    together. A message that arrives alone wakes one at once. With 0, each message wakes one at
    once."""
    wake_gap_ms_max: int = 20
    """The longest time that messages gather. They do so while at least two arrive in each
    wake_gap_ms, and fewer than 32 have arrived in all. From some hundred messages a second on, a
    longer time costs less CPU."""
    waiting_polls_max: int = 100_000
    """How many receives may wait at this broker at a time. Further ones are refused."""
    waiting_polls_per_group_max: int = 20_000
    """How many receives of one group may wait at a time. Further ones are refused."""
    access_lock_idle_polls: int = 3
    """For groups with an access lock: another consumer gets a queue when it has asked for it so
    many times in a row and no message of the queue was outstanding."""
    queue_lock_ms: int = 60_000
    """How long a consumer that consumes in order owns a queue without asking again (RocketMQ's
    rebalance.lockMaxLiveTime)."""
    transaction_immunity_ms: int = 6_000
    """How long after a half message is stored its producer is not asked about it. A sender may ask
    for a longer time."""
    transaction_check_interval_ms: int = 30_000
    """How often a producer is asked about a half message that is neither committed nor rolled
    back."""
    transaction_checks_max: int = 15
    """How many times producers are asked about a half message. After that it is given up, and a
    copy is kept in TRANS_CHECK_MAX_TIME_TOPIC."""
    transaction_age_ms_max: int = 72 * 3_600_000
    """At this age a half message is given up even if no producer could be asked."""
    half_messages_max: int = 100_000
    """How many half messages may be neither committed nor rolled back. Further ones are refused."""
    half_move_ms: int = 3_600_000
    """At this age a half message that keeps an old file of the log from being deleted is written
    again, at the end of the log."""
    settled_transactions_max: int = 10_000
    """How many ended transactions the broker remembers. A repeated commit or rollback of one of
    them gets the same answer."""
    known_sends_max: int = 500_000
    """How many of the newest sends the broker remembers, to recognize one that is repeated under
    the same message id. Each takes some 100 bytes of memory. At least half of them are known. 0
    means none: then each repeated send is stored again."""
    known_sends_ms: int = 600_000
    """How long a send is remembered at least, if known_sends_max allows it."""
    topics_max: int = 20_000
    """How many topics clients may create. Further ones are refused."""
    inner_topics_max: int = 100_000
    """How many retry topics, dead-letter topics and topics of the broker itself there may be.
    Further ones are refused."""
    groups_max: int = 20_000
    """How many consumer groups there may be. Further ones are refused."""
    metric_rows_max: int = 1_000
    """How many topics, groups, and pairs of them have series of their own in /metrics. Later ones
    are added up as `other`."""
    offsets_interval_ms: int = 5_000
    """How often the committed offsets are written to their file. Later changes are in the revive
    topic."""
    timers_max: int = 2_000_000
    """How many messages may wait for their delivery time. Each takes some 20 bytes of memory.
    Further ones are refused."""
    timer_snapshot_interval_ms: int = 10_000
    """How often, at most, the broker writes a snapshot of the waiting messages. A start after a
    crash reads the log from the last snapshot on."""
    timer_roll_ms: int = 24 * 3_600_000
    """At this age the record of a waiting message is written again, so that old files of the log
    can be deleted. The default is half of the retention time."""
    export_dir: str = ""
    """Where snapshots for the audit are written, in a folder with the broker's name. It is a
    directory, or a URL that fsspec knows. Empty means that none are written. Needs pip install
    'popmq[export]'."""
    export_rows_per_s: int = 5_000
    """How many records an export reads per second, at most. 0 means no limit. An export that
    continues an earlier snapshot reads at least twice as fast as the log has grown since."""
    export_bytes_per_s: int = 64 * MiB
    """How many bytes of the log an export reads per second, at most, with the same exception. 0
    means no limit."""
    export_chain_max: int = 144
    """How many snapshots continue each other before the next one is complete by itself."""
    export_keep: int = 2
    """How many complete snapshots are kept, each with those that continue it. 0 means all."""
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """The delays of RocketMQ's delay levels, level 1 first. The units are s, m, h and d."""
    sources: Mapping[str, str] = sources_field()
    """What set each of these, by the field's name."""
