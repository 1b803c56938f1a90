"""Every knob of a proxy: variable POPMQ_PROXY_ and the field's name in capitals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from popmq_common.process.config import sources_field
from popmq_common.tls.contexts import ClientAuth, TlsVersion
from popmq_common.units import KiB, MiB

NO_ENVOY_FRONT: Final = (
    "the proxy does not run inside Envoy any more; the fronts are http2 and grpcio, and "
    "docs/edge-proxy.md tells how Envoy stands before a proxy"
)


class Front(Enum):
    GRPCIO = "grpcio"
    HTTP2 = "http2"

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Who had the front that is gone is told what to do. Raises `ValueError`."""
        if str(value).lower() == "envoy":
            raise ValueError(NO_ENVOY_FRONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    name: str = ""
    """Name of this proxy in popmq cluster status and popmq top. If it is empty, they show its
    address."""
    front: Front = Front.HTTP2
    """Which front serves HTTP/2: http2 is PopMQ's own, grpcio takes several times the CPU time."""
    workers: int = 1
    """How many processes this proxy has, at most 64. They share its ports, and each has the limits
    below for itself. The front grpcio has one."""
    host: str = "127.0.0.1"
    """Address that the gRPC server listens on."""
    port: int = 8081
    """Port for clients, with and without TLS. With grpcio it is for clients without TLS. 0 means
    any free port."""
    tls_port: int = 0
    """With grpcio: the port for clients with TLS, which the Java, Go, C# and C++ clients use by
    default. 0 means that there is none. The http2 front does not need it."""
    tls_cert: Path | None = None
    """Certificate chain, as a PEM file. If it is not set, the proxy makes a certificate at its
    start, which official clients accept. If you replace the files, new connections use them within
    10 s, without a restart."""
    tls_key: Path | None = None
    """Private key of tls_cert, as a PEM file with the mode 0600."""
    tls_only: bool = False
    """Whether to refuse connections without TLS."""
    tls_min_version: TlsVersion = TlsVersion.V1_2
    """The oldest version of TLS that clients may use: 1.2 or 1.3. With grpcio it is always 1.2."""
    tls_ciphers: str = ""
    """Ciphers of TLS 1.2, as OpenSSL writes them. Empty means OpenSSL's own choice. It has no
    effect with grpcio."""
    tls_client_auth: ClientAuth = ClientAuth.NONE
    """Whether clients present a certificate: none, optional or required. The user of the connection
    is the certificate's name, the first of its subjectAltName or else the common name. With grpcio,
    optional is not possible. With required, a TLS connection without a certificate is refused;
    connections without TLS are not, unless tls_only is set."""
    tls_client_ca: Path | None = None
    """PEM file with the authority that must have signed the clients' certificates."""
    nameservers: tuple[str, ...] = ("127.0.0.1:9876",)
    """Nameservers to ask for routes, as host:port, separated by commas. The proxy asks them in
    turn."""
    admin_secret_file: Path | None = None
    """File with the admin secret. A client must present it to change topics, groups or offsets, to
    redrive dead letters and to settle transactions (popmq --secret-file). If it is not set, anyone
    who reaches the port may do that."""
    authentication: bool = False
    """Whether every request needs a user: it is signed with the secret key of a user, or comes with
    a user's client certificate. popmq user create makes users (docs/security.md)."""
    authorization: bool = False
    """Whether users may do only what their policies allow (popmq acl). It needs authentication."""
    init_user_file: Path | None = None
    """JSON file {"username": …, "password": …}: the Super user that is created when the cluster has
    no users."""
    signature_window_ms: int = 0
    """By how much the date of a signature may differ from now, in any time zone. 0 means that every
    date is accepted."""
    audit_log: str = ""
    """File for the audit trail, which has a JSON line for each refusal and each change that an
    operator makes. - means stdout; empty means that none is written."""
    audit_log_bytes_max: int = 64 * MiB
    """Size at which the next audit file begins. Ten older ones are kept."""
    link_secret: str = field(default="", repr=False)
    """The link's secret, the same as POPMQ_BROKER_LINK_SECRET. This proxy and each broker prove to
    each other that they know it. Empty means that there is no secret."""
    link_secret_file: Path | None = None
    """A file with the link's secret, instead of link_secret."""
    link_tls_ca: Path | None = None
    """PEM file with the authority that signed the brokers' link certificates. If it is not set, the
    link has no TLS."""
    link_tls_cert: Path | None = None
    """Certificate chain, as a PEM file, that this proxy presents to brokers and nameservers that
    ask for one."""
    link_tls_key: Path | None = None
    """Private key of link_tls_cert, as a PEM file with the mode 0600."""
    nameserver_tls_ca: Path | None = None
    """PEM file with the authority that signed the nameservers' certificates. If it is not set, the
    proxy connects to them without TLS."""
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
    log_level: str = "info"
    """debug, info, warning or error."""
    create_topics: bool = False
    """Whether a topic is created when it is first used. Such a topic takes every message type. With
    authorization, nothing is created on first use. popmq standalone sets it to True."""
    create_topic_queues: int = 8
    """Number of queues, on each broker, of a topic that is created on first use."""
    body_bytes_max: int = 4 * MiB
    """Size of the largest message body."""
    properties_bytes_max: int = 16 * KiB
    """Size of the names and values of user properties, tag and keys together, at most."""
    properties_count_max: int = 128
    """Number of user properties of a message, at most."""
    delay_ms_max: int = 40 * 24 * 3_600_000
    """How far in the future a message's delivery time may be."""
    send_messages_max: int = 1_024
    """Number of messages in one SendMessage, at most."""
    invisible_ms_default: int = 60_000
    """Invisible time if the client leaves it to the server. The server then renews the lease by
    this time, as often as needed."""
    alive_interval_ms: int = 5_000
    """How often the brokers learn which clients are alive, and renew their leases. It must be at
    most a quarter of invisible_ms_default."""
    alive_ms: int = 60_000
    """After so long without a call or heartbeat, a client is no longer reported as alive. It must
    be longer than any client's heartbeat interval."""
    invisible_ms_min: int = 10_000
    """Shortest invisible time of a receive. Clients expect that less than 10 s is refused."""
    invisible_ms_max: int = 12 * 3_600_000
    """Longest invisible time of a receive or a change."""
    poll_ms_max: int = 20_000
    """How long a receive waits for messages, at most."""
    transaction_poll_ms: int = 1_000
    """How often the proxy asks the brokers which half messages are due for a check by its
    producers. Each pause is random, between half of it and one and a half."""
    transaction_recovery_ms_max: int = 3_600_000
    """Longest orphaned_transaction_recovery_duration that a message may have."""
    call_timeout_ms: int = 5_000
    """How long a broker may take to answer. The time that a receive waits for messages is not
    counted."""
    broker_wait_ms: int = 8_000
    """Some calls only one broker can serve, such as an ack or a send to a message group. This is
    how long they wait while that broker cannot be reached, if the client waits so long. It should
    be longer than a restart of a broker."""
    gather_ms_max: int = 3
    """How long a send waits for others, at most, to go to the broker together. It waits only in a
    stream in which two other sends can be expected, and not if all clients already wait for an
    answer. 0 means that no send waits. From some hundred messages a second on, a longer time costs
    less CPU."""
    request_bytes_max: int = 130 * MiB
    """Size of the largest SendMessage request as a whole. The default has room for a batch of large
    messages."""
    received_bytes_max: int = 512 * MiB
    """How many bytes requests of all clients may hold while they are incomplete or large. It has no
    effect with grpcio."""
    unread_bytes_max: int = 256 * MiB
    """How many bytes of answers may be held that clients have not read or their sockets do not
    take. The variables from here to connections_max have no effect with grpcio."""
    stall_ms_max: int = 30_000
    """How long an answer waits while its client reads nothing of it. Then the call ends."""
    arriving_max: int = 8_192
    """How many requests may have begun to arrive without being complete."""
    arrival_ms_max: int = 60_000
    """How long a request may take to arrive completely."""
    streams_first: int = 1_024
    """How many streams (calls) a connection may have at first. When more than half of them are
    calls that the proxy works on, the number doubles, up to streams_max."""
    streams_max: int = 16_384
    """How many streams a connection may have at most, for example with waiting receives."""
    header_bytes_max: int = 16 * KiB
    """Size of a request's headers, as they are sent and after decoding, at most."""
    idle_frames_max: int = 10_000
    """How many frames that begin nothing a connection may send in a second: pings, windows, resets,
    pieces of a few bytes. Each answered call allows eight more, and each KiB of an answer one more.
    A connection that sends more is closed."""
    address_idle_frames_max: int = 50_000
    """The same for all connections of one address. Beyond it, connections that send more than an
    equal share are closed."""
    connections_max: int = 20_000
    """How many connections clients may have at a time."""
    rpcs_max: int = 80_000
    """How many RPCs may be under way at a time. Further ones are refused. A client has one for its
    settings and one for each receive that waits."""
    sessions_max: int = 100_000
    """How many clients' settings are remembered. The clients that have been silent longest are
    forgotten first."""
    session_expiry_ms: int = 120_000
    """After so long without a call or heartbeat, a client is forgotten. It is longer than any
    client's heartbeat interval."""
    sources: Mapping[str, str] = sources_field()
    """What set each of these, by the field's name."""
