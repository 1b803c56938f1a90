"""What is compared: each system's settings, and what its client's calls mean. Values only."""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class System:
    title: str
    client: str
    """Which end in `peers.clients` talks to it."""
    colour: str
    settings: str
    """Of the server, for durability."""
    batch: str
    """The client's call that sends several messages; empty: there is none."""
    ack: str
    """What is known when the client's ack returns."""
    is_ours: bool = False


_POPMQ: Final = System(
    title="PopMQ",
    client="popmq",
    colour="#3b8eea",
    settings="`popmq standalone`, sync flush: confirmed after fdatasync",
    batch="`producer.send_many`",
    ack="the handler's return; the SDK waits until the server has the acks on disk",
    is_ours=True,
)
_RABBITMQ_ACK: Final = "`message.ack()` returns when it is written to the socket"
SYSTEMS: Final[dict[str, System]] = {
    "popmq": _POPMQ,
    "popmq-compiled": replace(_POPMQ, title="PopMQ, compiled", colour="#2f5fb3"),
    "redis": System(
        title="Redis Streams",
        client="redis",
        colour="#c6302b",
        settings="`appendonly yes`, `appendfsync always`",
        batch="a pipeline of `XADD`, no transaction",
        ack="`XACK` of all that was read: on disk",
    ),
    "nats": System(
        title="NATS JetStream",
        client="nats",
        colour="#27aa5b",
        settings="a stream in files, `sync_interval: always`",
        batch="",
        ack="`msg.ack()` returns when it is in the client's buffer",
    ),
    "rabbitmq": System(
        title="RabbitMQ, quorum queue",
        client="rabbitmq",
        colour="#d9822b",
        settings="a quorum queue of one node, persistent messages, publisher confirms",
        batch="",
        ack=_RABBITMQ_ACK,
    ),
    "rabbitmq-classic": System(
        title="RabbitMQ, classic queue",
        client="rabbitmq",
        colour="#a8641a",
        settings="a durable classic queue, persistent messages, publisher confirms",
        batch="",
        ack=_RABBITMQ_ACK,
    ),
}
DEFAULT: Final = ("popmq", "popmq-compiled", "redis", "nats", "rabbitmq")


@dataclass(frozen=True, slots=True)
class Load:
    """A row of the tables."""

    title: str
    in_flight: int = 0
    """Sends under way, of all client processes together."""
    batch: int = 1
    rate_per_s: int = 0
    """Of all client processes together; 0: as fast as possible."""
    has_latency: bool = True


LOADS: Final[dict[str, Load]] = {
    "send": Load("send, 128 in flight", in_flight=128),
    "send-many": Load("send 32 a call, 4 calls in flight", in_flight=4, batch=32),
    "receive": Load("receive and ack", has_latency=False),
    "e2e": Load("end to end, 1,000 a second", rate_per_s=1_000),
}


def runs(system: str, load: str) -> bool:
    """Whether the system's client has what the row is about."""
    return load != "send-many" or bool(SYSTEMS[system].batch)
