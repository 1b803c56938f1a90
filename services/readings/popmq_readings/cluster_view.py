"""A cluster in rows, made of two looks at it: totals of the second, rates between the two.

Nothing here asks anybody. A rate is None when it cannot be known: at the first look, and of a
service that has started in between. A proxy's are those between its last two reports, where the
two looks have seen the same one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from popmq_admin.v1 import admin_pb2 as admin

Look = admin.ShowClusterResponse
Figures = dict[str, admin.BrokerFigures]
_NOTHING: Final = admin.BrokerFigures()
"""Of a broker that was not there at the first look; no process started at its time."""


class _Since(Protocol):
    """What has totals since its start."""

    now_ms: int
    started_ms: int


class Service(NamedTuple):
    role: str
    name: str
    address: str
    failure: str
    version: str
    up_ms: int
    cpu: float | None = None
    """Cores in use."""
    memory_bytes: int = 0
    in_s: float | None = None
    """Messages stored a second by a broker, calls a second of a proxy."""
    out_s: float | None = None
    """Messages handed out a second by a broker, failed calls a second of a proxy."""
    disk_free_bytes: int = 0
    disk_total_bytes: int = 0
    clients: int = 0

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name or self.address


@dataclass(slots=True)
class GroupRow:
    """A group and a topic, of all brokers together."""

    group: str
    topic: str
    ready: int = 0
    in_flight: int = 0
    delayed: int = 0
    blocked: int = 0
    unaccounted: int = 0
    waiting_polls: int = 0
    silent_ms: int = 0
    """Since its last receive, or since the start of a broker that knows of none."""
    out_s: float | None = None
    acked_s: float | None = None

    @property
    def lag(self) -> int:
        return self.ready + self.in_flight + self.delayed + self.blocked


@dataclass(slots=True)
class TopicRow:
    topic: str
    stored: int = 0
    in_s: float | None = None


@dataclass(slots=True)
class View:
    look: Look
    services: list[Service] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    """The largest lag first."""
    topics: list[TopicRow] = field(default_factory=list)
    """The highest rate first."""
    in_s: float | None = None
    out_s: float | None = None
    acked_s: float | None = None

    @property
    def brokers(self) -> list[admin.BrokerAnswer]:
        """Those that told their figures."""
        return [answer for answer in self.look.brokers if not answer.failure]


def view_of(look: Look, before: Look | None = None) -> View:
    view = View(look)
    old = _figures(before)
    view.services = [*_nameservers(look), *_brokers(look, old), *_proxies(look, before)]
    for answer in view.brokers:
        now, then = answer.figures, old.get(answer.name, _NOTHING)
        span_s = _span_s(now, then)
        view.in_s = _sum(view.in_s, _rate(now.stored, then.stored, span_s))
        view.out_s = _sum(view.out_s, _rate(now.handed_out, then.handed_out, span_s))
        view.acked_s = _sum(view.acked_s, _rate(now.acked, then.acked, span_s))
    view.groups = sorted(_groups(view, old), key=lambda one: (-one.lag, one.group, one.topic))
    view.topics = sorted(_topics(view, old), key=lambda one: (-(one.in_s or 0), one.topic))
    return view


def _figures(look: Look | None) -> Figures:
    """Of each broker that answered, by name."""
    answers = look.brokers if look is not None else []
    return {answer.name: answer.figures for answer in answers if not answer.failure}


def _nameservers(look: Look) -> Iterator[Service]:
    for one in look.nameservers:
        up_ms = look.now_ms - one.started_ms if one.started_ms else 0
        yield Service("nameserver", "", one.address, one.failure, one.version, up_ms)


def _brokers(look: Look, old: Figures) -> Iterator[Service]:
    for answer in look.brokers:
        now, then = answer.figures, old.get(answer.name, _NOTHING)
        span_s = _span_s(now, then)
        yield Service(
            role="broker",
            name=answer.name,
            address=answer.address,
            failure=answer.failure,
            version=now.version,
            up_ms=now.now_ms - now.started_ms,
            cpu=_rate(now.cpu_ms / 1000, then.cpu_ms / 1000, span_s),
            memory_bytes=now.memory_bytes,
            in_s=_rate(now.stored, then.stored, span_s),
            out_s=_rate(now.handed_out, then.handed_out, span_s),
            disk_free_bytes=now.disk_free_bytes,
            disk_total_bytes=now.disk_total_bytes,
        )


def _proxies(look: Look, before: Look | None) -> Iterator[Service]:
    old = {one.id: one for one in before.proxies} if before is not None else {}
    for now in look.proxies:
        then = old.get(now.id, admin.ProxyFigures())
        if _span_s(now, then) is None:
            then = _reported_before(now)
        span_s = _span_s(now, then)
        yield Service(
            role="proxy",
            name=now.name,
            address=now.address,
            failure="",
            version=now.version,
            up_ms=now.now_ms - now.started_ms,
            cpu=_rate(now.cpu_ms / 1000, then.cpu_ms / 1000, span_s),
            memory_bytes=now.memory_bytes,
            in_s=_rate(now.calls, then.calls, span_s),
            out_s=_rate(now.failed, then.failed, span_s),
            clients=now.clients,
        )


def _reported_before(now: admin.ProxyFigures) -> admin.ProxyFigures:
    """The report before this one: proxies report less often than people look."""
    return admin.ProxyFigures(
        now_ms=now.before_ms,
        started_ms=now.started_ms if now.before_ms else 0,
        cpu_ms=now.before_cpu_ms,
        calls=now.before_calls,
        failed=now.before_failed,
    )


def _groups(view: View, old: Figures) -> Iterable[GroupRow]:
    found: dict[tuple[str, str], GroupRow] = {}
    for answer in view.brokers:
        now, then = answer.figures, old.get(answer.name, _NOTHING)
        span_s = _span_s(now, then)
        past = {(one.group, one.topic): one for one in then.groups}
        for one in now.groups:
            key = (one.group, one.topic)
            silent_ms = now.now_ms - (one.last_receive_ms or now.started_ms)
            row = found.setdefault(key, GroupRow(*key, silent_ms=silent_ms))
            row.silent_ms = min(row.silent_ms, silent_ms)
            row.ready += one.ready
            row.in_flight += one.in_flight
            row.delayed += one.delayed
            row.blocked += one.blocked
            row.unaccounted += one.unaccounted
            row.waiting_polls += one.waiting_polls
            was = past.get(key, admin.GroupFigures())
            row.out_s = _sum(row.out_s, _rate(one.handed_out, was.handed_out, span_s))
            row.acked_s = _sum(row.acked_s, _rate(one.acked, was.acked, span_s))
    return found.values()


def _topics(view: View, old: Figures) -> Iterable[TopicRow]:
    found: dict[str, TopicRow] = {}
    for answer in view.brokers:
        now, then = answer.figures, old.get(answer.name, _NOTHING)
        span_s = _span_s(now, then)
        past = {one.topic: one.stored for one in then.topics}
        for one in now.topics:
            row = found.setdefault(one.topic, TopicRow(one.topic))
            row.stored += one.stored
            row.in_s = _sum(row.in_s, _rate(one.stored, past.get(one.topic, 0), span_s))
    return found.values()


def _span_s(now: _Since, then: _Since) -> float | None:
    """Between two looks at one process; None: it is not the same, or no time has passed."""
    if then.started_ms != now.started_ms or now.now_ms <= then.now_ms:
        return None
    return (now.now_ms - then.now_ms) / 1000


def _rate(total: float, before: float, span_s: float | None) -> float | None:
    """A second. What was not there at the first look has begun at 0 since."""
    return None if span_s is None else max(0.0, total - before) / span_s


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other
