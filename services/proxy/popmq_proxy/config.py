"""Every knob of a proxy: variable POPMQ_PROXY_ and the field's name in capitals."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

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
    """What operators call it, in popmq cluster status and popmq top. Empty: its address."""
    front: Front = Front.HTTP2
    """What speaks HTTP/2: http2, our own; or grpcio, which takes several times the CPU time."""
    host: str = "127.0.0.1"
    """Address the gRPC server listens on."""
    port: int = 8081
    """Port for clients, with and without TLS; with grpcio for those without. 0: any free one."""
    tls_port: int = 0
    """A port for clients with TLS (the default of the Java, Go, C# and C++ clients), which only
    grpcio needs; 0: none."""
    tls_cert: Path | None = None
    """Certificate chain, PEM. None: one is made at start, which official clients accept. New files
    serve new connections within 10 s, without a restart."""
    tls_key: Path | None = None
    """Private key of tls_cert, PEM; its mode is 0600."""
    tls_only: bool = False
    """Refuse connections without TLS."""
    tls_min_version: TlsVersion = TlsVersion.V1_2
    """Oldest version of TLS that clients may speak: 1.2 or 1.3; with grpcio always 1.2."""
    tls_ciphers: str = ""
    """Ciphers of TLS 1.2, as OpenSSL writes them; empty: OpenSSL's own choice. Not with grpcio."""
    tls_client_auth: ClientAuth = ClientAuth.NONE
    """Whether clients show a certificate: none, optional or required. Its name, the first of its
    subjectAltName or else the common name, is the connection's user. optional is not with grpcio.
    required lets nobody in with TLS who shows none; see tls_only."""
    tls_client_ca: Path | None = None
    """Authority, PEM, that must have signed the clients' certificates."""
    nameservers: tuple[str, ...] = ("127.0.0.1:9876",)
    """Nameservers to ask for routes, host:port separated by commas; asked in turn."""
    admin_secret_file: Path | None = None
    """File with the secret that changes of topics, groups and offsets, redrives and settlements
    must show (popmq --secret-file); none: anyone who reaches the port may change them."""
    authentication: bool = False
    """Requests must be signed, or come with a client certificate, of a user whom popmq user create
    has made (docs/security.md)."""
    authorization: bool = False
    """Users may do what their policies allow (popmq acl); needs authentication."""
    init_user_file: Path | None = None
    """JSON file {"username": …, "password": …}: the Super user who is made when the cluster has no
    users."""
    signature_window_ms: int = 0
    """How far the date of a signature may be from now, in some time zone; 0: any is taken."""
    audit_log: str = ""
    """File for the audit trail, a JSON line for each refusal and each operator's change; -: stdout;
    empty: none is written."""
    audit_log_bytes_max: int = 64 * MiB
    """Of one such file; ten older ones are kept."""
    link_secret: str = ""
    """Shared secret, POPMQ_BROKER_LINK_SECRET; this proxy and each broker prove to each other that
    they know it. Empty: none."""
    link_secret_file: Path | None = None
    """File with the same, instead of it."""
    link_tls_ca: Path | None = None
    """Authority that signed the brokers' link certificates, PEM; none: the link has no TLS."""
    link_tls_cert: Path | None = None
    """Certificate chain, PEM, that this proxy shows to brokers and nameservers that ask for one."""
    link_tls_key: Path | None = None
    """Private key of link_tls_cert, PEM; its mode is 0600."""
    nameserver_tls_ca: Path | None = None
    """Authority, PEM, that signed the nameservers' certificates; none: they are asked without
    TLS."""
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
    create_topics: bool = False
    """Make a topic that takes every message type when it is first used; with authorization nothing
    is made on first use. popmq standalone: True."""
    create_topic_queues: int = 8
    """Queues per broker of a topic made on first use."""
    body_bytes_max: int = 4 * MiB
    """Largest message body."""
    properties_bytes_max: int = 16 * KiB
    """Names and values of user properties, tag and keys together."""
    properties_count_max: int = 128
    """User properties of one message."""
    delay_ms_max: int = 40 * 24 * 3_600_000
    """How far ahead a message's delivery time may be."""
    send_messages_max: int = 1_024
    """Messages in one SendMessage."""
    invisible_ms_default: int = 60_000
    """Invisible time when the client leaves it to the server, which then renews it: for so long
    again, as often as needed."""
    alive_interval_ms: int = 5_000
    """How often the brokers learn which clients live, at least four times in
    invisible_ms_default; their leases are renewed then."""
    alive_ms: int = 60_000
    """Silence after which a client is not told of any more; longer than any client's heartbeat."""
    invisible_ms_min: int = 10_000
    """Smallest invisible time of a receive; clients expect a refusal below 10 s."""
    invisible_ms_max: int = 12 * 3_600_000
    """Largest invisible time of a receive or change."""
    poll_ms_max: int = 20_000
    """Longest time a receive is held when there is nothing."""
    transaction_poll_ms: int = 1_000
    """How often the brokers are asked which transactions the connected producers are to be asked
    about; each time a random one between half and one and a half of it."""
    transaction_recovery_ms_max: int = 3_600_000
    """Longest orphaned_transaction_recovery_duration of a message."""
    call_timeout_ms: int = 5_000
    """How long a broker may take to answer, waiting polls apart."""
    broker_wait_ms: int = 8_000
    """How long what only one broker can do (an ack, a message of a message group) waits while that
    broker cannot be reached, if its client waits so long. Longer than a restart."""
    gather_ms_max: int = 3
    """How long a send waits at most for others, to go to the broker with them, while so many come
    that two may be expected and not all clients wait already. 0: none waits. A longer time costs
    less CPU at some hundred messages a second and above."""
    request_bytes_max: int = 130 * MiB
    """Largest SendMessage request as a whole; it has room for a batch of large messages."""
    received_bytes_max: int = 512 * MiB
    """Bytes held of all requests that are not whole yet, or large; not with grpcio."""
    unread_bytes_max: int = 256 * MiB
    """Bytes held of all answers that clients do not read or their sockets do not take; http2 only,
    as all of the next."""
    stall_ms_max: int = 30_000
    """How long an answer waits while its client takes nothing of it; then its call ends."""
    arriving_max: int = 8_192
    """Requests at a time that have begun and are not whole."""
    arrival_ms_max: int = 60_000
    """How long a request may take to be whole."""
    streams_first: int = 1_024
    """Streams of a connection, until half of them are calls under way; then twice as many, and so
    on up to streams_max."""
    streams_max: int = 16_384
    """Streams of a connection that keeps that many calls under way, waiting polls say."""
    header_bytes_max: int = 16 * KiB
    """Headers of a request, as they are sent and as they are meant."""
    idle_frames_max: int = 10_000
    """Frames a second of a connection that begin nothing: pings, windows, resets, pieces of a few
    bytes. Each call that is answered allows eight more, each KiB of an answer one. One that sends
    more is closed."""
    address_idle_frames_max: int = 50_000
    """The same of all connections of an address; beyond it those are closed that send more than
    their part."""
    connections_max: int = 20_000
    """Connections of clients at a time; not with grpcio."""
    rpcs_max: int = 20_000
    """RPCs under way at a time; more are refused by the server."""
    sessions_max: int = 100_000
    """Clients whose settings are remembered; the ones silent longest are forgotten first."""
    session_expiry_ms: int = 120_000
    """Silence after which a client is taken for gone; it is longer than any client's heartbeat."""
