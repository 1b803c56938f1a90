"""The systems under test, and which are compared with which."""

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """A server of the protocol, in one way of running it."""

    name: str
    title: str
    jvm: bool
    """JVMs need about a minute of load before they are at speed."""


@dataclass(frozen=True)
class Case:
    """A system with a flush mode: what is started, loaded and stopped in one go."""

    system: str
    flush: str

    def __str__(self) -> str:
        return f"{self.system} ({self.flush} flush)"


@dataclass(frozen=True)
class Pair:
    """Ours and the peer it is compared with, in the same flush mode."""

    ours: str
    theirs: str
    title: str
    heads: tuple[str, str] = ("PopMQ", "RocketMQ")
    """What the tables call the two."""


EARLIER = "popmq-earlier"
"""Another commit, which `make bench-record` has beside this one."""

SIGNED = "-signed"
"""In the names of systems with authentication and authorization."""

REPLICATED = "-replicated"
"""In the names of systems whose broker has three replicas. All of them must have a message."""

SYSTEMS = {
    system.name: system
    for system in (
        System("popmq", "PopMQ, separate processes", jvm=False),
        System("popmq-grpcio", "PopMQ, separate processes, grpcio front", jvm=False),
        System("popmq-signed", "PopMQ, separate processes, signed calls", jvm=False),
        System("popmq-standalone", "PopMQ, standalone", jvm=False),
        System("popmq-compiled", "PopMQ, separate processes, compiled", jvm=False),
        System("popmq-signed-compiled", "PopMQ, separate processes, signed, compiled", jvm=False),
        System(EARLIER, "PopMQ, separate processes, an earlier commit", jvm=False),
        System("popmq-standalone-compiled", "PopMQ, standalone, compiled", jvm=False),
        System("popmq-replicated", "PopMQ, three replicas", jvm=False),
        System("popmq-replicated-compiled", "PopMQ, three replicas, compiled", jvm=False),
        System("rocketmq-replicated", "Apache RocketMQ, three replicas, controller mode", jvm=True),
        System("rocketmq", "Apache RocketMQ, cluster", jvm=True),
        System("rocketmq-local", "Apache RocketMQ, broker and proxy in one JVM", jvm=True),
    )
}

FLUSHES = ("sync", "async")

COMPILED = "-compiled"
"""How the names end of systems whose hot modules mypyc has compiled."""

CLUSTER_PAIRS = (
    Pair("popmq", "rocketmq", "Separate processes"),
    Pair("popmq-compiled", "rocketmq", "Separate processes, compiled"),
)
ALONE_PAIRS = (
    Pair("popmq-standalone", "rocketmq-local", "One process"),
    Pair("popmq-standalone-compiled", "rocketmq-local", "One process, compiled"),
)
REPLICATED_PAIRS = (
    Pair("popmq-replicated", "rocketmq-replicated", "Three replicas"),
    Pair("popmq-replicated-compiled", "rocketmq-replicated", "Three replicas, compiled"),
)
_SIGNED_HEADS = ("signed", "unsigned")
SIGNED_PAIRS = (
    Pair("popmq-signed", "popmq", "Signed calls", _SIGNED_HEADS),
    Pair("popmq-signed-compiled", "popmq-compiled", "Signed calls, compiled", _SIGNED_HEADS),
)
PAIRS = (
    *CLUSTER_PAIRS,
    Pair("popmq-grpcio", "rocketmq", "Separate processes, grpcio front"),
    *ALONE_PAIRS,
    *REPLICATED_PAIRS,
    *SIGNED_PAIRS,
)

DEFAULT_CASES = (
    Case("popmq", "sync"),
    Case("rocketmq", "sync"),
    Case("popmq-compiled", "sync"),
)

FULL_CASES = (
    *DEFAULT_CASES,
    Case("popmq-grpcio", "sync"),
    Case("popmq-standalone", "sync"),
    Case("rocketmq-local", "sync"),
    Case("popmq-standalone-compiled", "sync"),
    Case("popmq", "async"),
    Case("rocketmq", "async"),
)


def peer_of(system: str) -> str:
    """The name of the JVM's system it is compared with; of that system its own."""
    if system == EARLIER:
        return peer_of("popmq")
    for pair in PAIRS:
        if pair.ours == system:
            return peer_of(pair.theirs)
    return system
