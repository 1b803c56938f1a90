"""Every knob of a nameserver: variable POPMQ_NAMESERVER_ and the field's name in capitals."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NameserverConfig:
    host: str = "127.0.0.1"
    """Address that the gRPC server listens on."""
    port: int = 9876
    """Port of the gRPC server. 0 means any free port."""
    tls_cert: Path | None = None
    """Certificate chain, as a PEM file, for the host name that brokers and proxies connect to. If
    it is set, the port accepts TLS only; if not, it has no TLS."""
    tls_key: Path | None = None
    """Private key of tls_cert, as a PEM file with the mode 0600."""
    tls_client_ca: Path | None = None
    """PEM file with the authority that must have signed the certificates of brokers and proxies. If
    it is not set, they need no certificate."""
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
    link_secret: str = ""
    """The link's secret, the same as POPMQ_BROKER_LINK_SECRET. Brokers must prove that they know it
    before they change a route. If it is empty, anybody may change routes. Proxies and clients only
    read routes, and need no proof."""
    link_secret_file: Path | None = None
    """A file with the link's secret, instead of link_secret."""
    log_level: str = "info"
    """debug, info, warning or error."""
    expiry_ms: int = 15_000
    """After so long without a heartbeat, a broker is removed from the routes. The default is three
    heartbeats of a broker. RocketMQ's nameserver waits 120,000 ms."""
