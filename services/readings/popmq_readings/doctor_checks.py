"""What is wrong, why, and what to do: decided from what was found out, without looking anywhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted
from popmq_readings.times import moment, span_text

SKEW_MS_MAX: Final = 2_000
"""Delivery times and born times are compared over machines."""
SILENT_MS: Final = 60_000
"""So long nobody has asked for a group's messages: nobody does."""
NEARLY_FULL_PERCENT: Final = 5
"""So near to the use at which old files are deleted before their time."""
NAMESERVER_PORTS: Final = {9876}
BROKER_PORTS: Final = {10909, 10911, 10912}


class Listener(Enum):
    """What is at the endpoint."""

    NO_SUCH_HOST = "no-such-host"
    NOTHING = "nothing"
    SILENT = "silent"
    GRPC = "grpc"
    TLS_ONLY = "tls-only"
    PLAINTEXT_ONLY = "plaintext-only"
    UNTRUSTED = "untrusted"
    HTTP1 = "http1"
    REMOTING = "remoting"
    LINK = "link"
    OTHER = "other"


class Diagnosis(NamedTuple):
    code: str
    what: str
    why: str
    todo: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What was found out; None: it was not asked, because something before it failed."""

    host: str
    port: int
    tls: bool = False
    listener: Listener = Listener.GRPC
    detail: str = ""
    """The error, of a listener that is wrong."""
    inspected: admin.InspectResponse | None = None
    inspect_code: str = ""
    """The gRPC status of a server that did not say how it is."""
    inspect_text: str = ""
    is_nameserver: bool = False
    asked_ms: int = 0
    """This machine's clock before and after the question."""
    answered_ms: int = 0
    version: str = ""
    topic: str = ""
    topic_type: str = ""
    """That the topic has; empty: there is no such topic."""
    wanted_type: str = ""
    group: str = ""
    group_exists: bool = True
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Addresses of the topic's routes that do not answer, and why."""

    is_local: bool = True
    """Only this machine reaches the endpoint."""
    authentication: bool | None = None
    """Whether requests must be signed; None: it does not tell."""
    lacking_users: Sequence[str] = ()
    """Brokers that do not have the table of users in force."""

    @property
    def endpoint(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def findings(facts: Facts) -> list[Diagnosis]:
    """The endpoint first: when it is wrong nothing else can be said."""
    wrong = _endpoint(facts)
    if wrong is not None:
        return [wrong]
    if facts.inspected is None:
        return [_not_popmq(facts)]
    found = [*_cluster(facts.inspected), *_clocks(facts, facts.inspected)]
    found += [*_versions(facts, facts.inspected), *_replaced(facts.inspected.brokers)]
    found += _asked(facts)
    for broker in facts.inspected.brokers:
        if not broker.failure:
            found += [*_disk(broker), *_damage(broker), *_groups(broker)]
    return found


def _endpoint(facts: Facts) -> Diagnosis | None:
    at = facts.endpoint
    match facts.listener:
        case Listener.NO_SUCH_HOST:
            what = f"the name {facts.host} is not known"
            return Diagnosis("endpoint-name", what, facts.detail, "correct the host in --endpoint")
        case Listener.NOTHING:
            todo = "start a server: popmq standalone; or name the right port with --endpoint"
            return Diagnosis("endpoint-nothing", f"nothing listens at {at}", facts.detail, todo)
        case Listener.SILENT:
            why = "packets are dropped on the way, or the machine is down"
            todo = "look at firewalls, security groups and the host of --endpoint"
            return Diagnosis("endpoint-silent", f"{at} does not answer", why, todo)
        case Listener.HTTP1:
            todo = "use the port for clients, by default 8081"
            why = "metrics and admin pages do; clients speak gRPC"
            return Diagnosis("endpoint-http", f"{at} speaks HTTP/1", why, todo)
        case Listener.REMOTING:
            what = f"{at} speaks RocketMQ's remoting protocol"
            why = "it is a nameserver or broker for clients of RocketMQ 4"
            return Diagnosis("endpoint-remoting", what, why, "use the gRPC port of a proxy: 8081")
        case Listener.LINK:
            what = f"{at} is the link of a broker"
            todo = "use the port of a proxy, by default 8081"
            return Diagnosis("endpoint-link", what, facts.detail, todo)
        case Listener.TLS_ONLY:
            what = f"{at} takes TLS alone"
            why = "the connection without TLS was closed"
            todo = "connect with TLS: an endpoint that begins with https://, or --tls"
            return Diagnosis("tls-needed", what, why, todo)
        case Listener.PLAINTEXT_ONLY:
            what = f"{at} does not speak TLS"
            todo = "connect without TLS: an endpoint that begins with http://, or none of both"
            return Diagnosis("tls-refused", what, facts.detail, todo)
        case Listener.UNTRUSTED:
            what = f"this machine does not trust the certificate of {at}"
            todo = "trust its authority with --tls-ca, or give the server another certificate"
            todo += " (POPMQ_PROXY_TLS_CERT)"
            return Diagnosis("tls-untrusted", what, facts.detail, todo)
        case Listener.OTHER:
            return _other(facts)
    return None


def _other(facts: Facts) -> Diagnosis:
    what = f"{facts.endpoint} is not gRPC"
    why = facts.detail or "it closed the connection"
    todo = "use the port of a proxy, by default 8081"
    if facts.port in BROKER_PORTS:
        why = "a broker listens there, for proxies"
    elif facts.port in NAMESERVER_PORTS:
        why = "a nameserver listens there"
    return Diagnosis("endpoint-not-grpc", what, why, todo)


def _not_popmq(facts: Facts) -> Diagnosis:
    if facts.inspect_code == "UNIMPLEMENTED":
        what = f"{facts.endpoint} is gRPC, but no proxy of PopMQ"
        why = "it does not know PopMQ's admin service: Apache RocketMQ, an older PopMQ, or another"
        if facts.is_nameserver:
            why = "it is a nameserver of PopMQ, for brokers and proxies"
        return Diagnosis(
            "not-popmq", what, why, "name a proxy with --endpoint, by default port 8081"
        )
    if facts.inspect_code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        what = f"{facts.endpoint} denies you access"
        todo = "say who you are: --user and --secret-key-file, or --context; or have it permitted"
        return Diagnosis("access-denied", what, facts.inspect_text, todo)
    what = f"{facts.endpoint} listens and does not serve"
    why = f"{facts.inspect_code}: {facts.inspect_text}"
    todo = "look at the proxy's log"
    if facts.tls and "Socket closed" in facts.inspect_text:
        todo += "; it may ask for your certificate: --tls-cert and --tls-key"
    return Diagnosis("not-serving", what, why, todo)


def _cluster(state: admin.InspectResponse) -> Iterator[Diagnosis]:
    if state.nameserver_failure:
        what = "the proxy reaches no nameserver"
        todo = "start one: popmq nameserver; or correct POPMQ_PROXY_NAMESERVERS"
        yield Diagnosis("no-nameserver", what, state.nameserver_failure, todo)
    elif not state.brokers:
        todo = "start one: popmq broker; or correct POPMQ_BROKER_NAMESERVERS"
        why = "no broker has registered with the nameserver"
        yield Diagnosis("no-broker", "there is no broker", why, todo)
    for broker in state.brokers:
        if broker.failure:
            what = f"broker {broker.name} does not answer the proxy at {broker.address}"
            todo = "start it, or correct POPMQ_BROKER_ADVERTISE to what the proxies can reach"
            yield Diagnosis("broker-down", what, broker.failure, todo)


def _clocks(facts: Facts, state: admin.InspectResponse) -> Iterator[Diagnosis]:
    clocks = {"the proxy": state.now_ms}
    clocks |= {f"broker {one.name}": one.now_ms for one in state.brokers if not one.failure}
    for name, now_ms in clocks.items():
        ahead = now_ms - facts.answered_ms
        behind = facts.asked_ms - now_ms
        if max(ahead, behind) > SKEW_MS_MAX:
            side = "ahead" if ahead > behind else "behind"
            what = f"the clock of {name} is {span_text(max(ahead, behind))} {side}"
            why = f"it says {moment(now_ms)}, this machine {moment(facts.answered_ms)}"
            todo = "let NTP set both; delayed messages come by the broker's clock"
            yield Diagnosis("clock-skew", what, why, todo)


def _versions(facts: Facts, state: admin.InspectResponse) -> Iterator[Diagnosis]:
    versions = {"this command": facts.version, "the proxy": state.version}
    versions |= {f"broker {one.name}": one.version for one in state.brokers if not one.failure}
    if len(set(versions.values())) > 1:
        why = ", ".join(f"{name} {version}" for name, version in versions.items())
        todo = "bring all to one version; brokers first"
        yield Diagnosis("versions-differ", "versions differ", why, todo)


def _asked(facts: Facts) -> Iterator[Diagnosis]:
    if facts.topic and not facts.topic_type:
        todo = f"popmq topic create {facts.topic}"
        why = "no broker has it, and nobody has sent to it"
        yield Diagnosis("topic-missing", f"there is no topic {facts.topic}", why, todo)
    elif facts.wanted_type and facts.topic_type not in ("MIXED", facts.wanted_type):
        what = f"topic {facts.topic} does not take {facts.wanted_type} messages"
        why = f"it takes {facts.topic_type}; such sends are refused"
        todo = f"popmq topic set {facts.topic} --type MIXED"
        yield Diagnosis("topic-type", what, why, todo)
    if facts.group and not facts.group_exists:
        todo = f"popmq group create {facts.group} --from first"
        why = "it is made at its first receive, and begins at messages sent after that"
        yield Diagnosis("group-missing", f"there is no group {facts.group}", why, todo)
    for address, why in facts.unreachable.items():
        what = f"the route of topic {facts.topic} names {address}, which this machine cannot reach"
        todo = "make the address reachable, or let the server tell another one"
        yield Diagnosis("route-unreachable", what, why, todo)


def _replaced(brokers: Iterable[admin.BrokerState]) -> Iterator[Diagnosis]:
    for name in sorted({peer for broker in brokers for peer in broker.replaced_peers}):
        what = f"broker {name} came back with another data directory"
        why = "the other brokers, or a nameserver, remember another one; what only it held is gone"
        todo = "mount its old disk and restart it; or, if that is lost: "
        todo += f"popmq cluster accept {name}"
        yield Diagnosis("broker-replaced", what, why, todo)


def _disk(broker: admin.BrokerState) -> Iterator[Diagnosis]:
    name, total = f"broker {broker.name}", broker.disk_total_bytes
    used = 100 * (1 - broker.disk_free_bytes / total) if total else 0.0
    why = f"{used:.0f} % of the disk of {broker.data_dir} are used"
    if broker.refusing:
        todo = "make room or add a disk; sends go on by themselves"
        yield Diagnosis("disk-full", f"{name} refuses sends", why, todo)
    elif broker.disk_free_bytes < 2 * broker.disk_reserve_bytes or (
        broker.disk_clean_percent < 100 and used > broker.disk_clean_percent - NEARLY_FULL_PERCENT
    ):
        what = f"the disk of {name} is nearly full"
        why += f"; above {broker.disk_clean_percent} % messages are deleted before their time"
        todo = f"make room; above {broker.disk_refuse_percent} % sends are refused"
        yield Diagnosis("disk-nearly-full", what, why, todo)
    if broker.data_dir_owner:
        what = f"files of {name} belong to {broker.data_dir_owner}"
        why = f"{broker.data_dir} was copied, or a broker ran there, as another user"
        todo = f"stop the broker, then chown -R its user {broker.data_dir}"
        yield Diagnosis("data-dir-owner", what, why, todo)
    if broker.index_failed:
        todo = "start the broker again; it makes the index from the log"
        what = f"the index of keys of {name} has stopped"
        yield Diagnosis("index-stopped", what, broker.index_failed, todo)


def _damage(broker: admin.BrokerState) -> Iterator[Diagnosis]:
    queues: dict[tuple[str, int], int] = {}
    for place in broker.damaged:
        queue = place.topic, place.queue_id
        queues[queue] = queues.get(queue, 0) + place.until_offset - place.from_offset
    for (topic, queue_id), count in queues.items():
        what = f"{counted(count, 'message')} of queue {queue_id} of topic {topic} cannot be read"
        why = f"entries of the queue, or records of the log, in {broker.data_dir} are damaged"
        todo = (
            f"popmq store rebuild --topic {topic} --queue {broker.name}:{queue_id}; what "
            "it cannot repair is lost, unless the broker is restored from a copy"
        )
        yield Diagnosis("messages-damaged", what, why, todo)
    for passed in broker.passed:
        messages = counted(passed.count, "message")
        what = f"group {passed.group} went over {messages} of topic {passed.topic}"
        todo = "the rebuild of the queue delivers those that it can repair"
        if passed.pulls:
            todo = f"after the rebuild of the queue: popmq group reset-offset {passed.group}"
        why = f"they could not be read in queue {passed.queue_id} of broker {broker.name}"
        yield Diagnosis("messages-passed", what, why, todo)


def _groups(broker: admin.BrokerState) -> Iterator[Diagnosis]:
    for use in broker.groups:
        waiting = use.lag - use.in_flight
        silent_since_ms = use.last_receive_ms or broker.started_ms
        if waiting <= 0 or use.waiting_polls or broker.now_ms - silent_since_ms <= SILENT_MS:
            continue
        since = (
            f"since {moment(use.last_receive_ms)}"
            if use.last_receive_ms
            else (f"since the broker started at {moment(broker.started_ms)}")
        )
        messages = counted(waiting, "message")
        what = f"group {use.group} is stuck: {messages} of topic {use.topic} not delivered"
        why = f"no consumer has asked broker {broker.name} for them {since}"
        todo = f"start a consumer; or, if nobody needs them: popmq group delete {use.group}"
        yield Diagnosis("group-stuck", what, why, todo)
