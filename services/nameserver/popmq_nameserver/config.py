"""Every knob of a nameserver: variable POPMQ_NAMESERVER_ and the field's name in capitals."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NameserverConfig:
    host: str = "127.0.0.1"
    """Address the gRPC server listens on."""
    port: int = 9876
    """Port of the gRPC server; 0: any free one."""
    tls_cert: Path | None = None
    """Certificate chain, PEM, naming the host that brokers and proxies connect to: then the port
    speaks TLS alone. None: no TLS."""
    tls_key: Path | None = None
    """Private key of tls_cert, PEM; its mode is 0600."""
    tls_client_ca: Path | None = None
    """Authority, PEM, that must have signed the certificates of brokers and proxies; none: they
    need none."""
    metrics_port: int = 0
    """Port of /metrics; 0: none."""
    metrics_tls_cert: Path | None = None
    """Certificate chain of the page, PEM: then it is https. None: it is http."""
    metrics_tls_key: Path | None = None
    """Private key of metrics_tls_cert, PEM; its mode is 0600."""
    metrics_tls_client_ca: Path | None = None
    """Authority, PEM, that must have signed the certificate shown to read the page; none: anyone
    who reaches the port may read it."""
    link_secret: str = ""
    """The link's secret, POPMQ_BROKER_LINK_SECRET: brokers must prove that they know it before they
    change a route; empty: anybody may. Proxies and clients, which only look, need none."""
    link_secret_file: Path | None = None
    """File with the same, instead of it."""
    log_level: str = "info"
    """debug, info, warning or error."""
    expiry_ms: int = 15_000
    """Silence after which a broker is taken out of the routes: three of its heartbeats. RocketMQ's
    nameserver waits 120,000 ms."""
