"""Every knob of a nameserver: variable POPMQ_NAMESERVER_ and the field's name in capitals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NameserverConfig:
    host: str = "127.0.0.1"
    """Address the gRPC server listens on."""
    port: int = 9876
    """Port of the gRPC server; 0: any free one."""
    metrics_port: int = 0
    """Port of /metrics; 0: none."""
    log_level: str = "info"
    """debug, info, warning or error."""
    expiry_ms: int = 15_000
    """Silence after which a broker is taken out of the routes: three of its heartbeats. RocketMQ's
    nameserver waits 120,000 ms."""
