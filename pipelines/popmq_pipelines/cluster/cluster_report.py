"""The audits of all brokers put together: a verdict, what it rests on, sums by owner, changes.

Never leased are, of the messages that a topic has for a group:

    ready      at the group's position and behind it, or waiting in place
    skipped    passed without a reason: a finding
    passed     the rest: left out by a filter, before the group's start, passed by a reset, pulled
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from popmq_common.records.names import is_user_topic
from popmq_pipelines.audit.latency import MINUTE_MS
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.cluster import advice, changes
from popmq_pipelines.cluster.advice import Remedy
from popmq_pipelines.cluster.audited_broker import NOTHING, AuditedBroker, Taken, Traffic
from popmq_pipelines.cluster.coverage import Coverage, coverage
from popmq_pipelines.cluster.owners import Owners
from popmq_pipelines.cluster.time_spread import TimeSpread, spread, spreads

MINUTES_MAX: Final = 1_440
"""Of what was stored, a day; the tables have all."""
_COUNTS: Final = ("acked", "in_flight", "retried", "dead", "voided", "overdue", "uncopied")
_STORE_TO_ACK: Final = "store to ack"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSums:
    topic: str
    owner: str
    stored: int
    stored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSums:
    """Messages of a topic that a group takes, by where they stand; `stored` is their sum."""

    topic: str
    consumer_group: str
    owner: str
    stored: int
    counts: Mapping[str, int]
    """`acked`, `in_flight`, `retried`, `dead`, `voided`, `overdue`, `uncopied`; `ready`, `skipped`
    and `passed` as above."""
    again: int
    """How often a message was redelivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSums:
    owner: str
    topics: int
    groups: int
    stored: int
    stored_bytes: int
    rate_per_s: float
    """Messages stored a second, from the first minute to the last."""
    peak_per_s: float
    """In the minute with most."""
    counts: Mapping[str, int]
    """Over the owner's groups, as `GroupSums` has them."""
    findings: int
    store_to_ack: TimeSpread | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    made_ms: int
    verdict: AuditVerdict
    coverage: list[Coverage]
    problems: list[str]
    """Why a part of the cluster could not be looked at."""
    finding_counts: Mapping[str, int]
    finding_places: Mapping[str, int]
    """"kind, topic, group" → how many."""
    steps: list[Remedy]
    owners: list[OwnerSums]
    topics: list[TopicSums]
    inner_topics: list[TopicSums]
    groups: list[GroupSums]
    times: list[TimeSpread]
    minutes: Mapping[str, list[list[int]]]
    """Owner → [minute, messages stored]."""
    changes: list[str] = field(default_factory=list)
    before_ms: int | None = None
    """When the report was made that `changes` compares with."""


def put_together(
    audited: Sequence[AuditedBroker],
    problems: Sequence[str],
    owners: Owners,
    before: Mapping[str, Any] | None,
    now_ms: int,
) -> ClusterReport:
    """`problems`: brokers that nothing can be said of; `before`: the last report, as JSON."""
    known = {one["broker"]: one for one in before["coverage"]} if before else {}
    looked = [coverage(one, known.get(one.name)) for one in audited]
    counts = Counter[str]()
    places = Counter[str]()
    for one in audited:
        counts.update(one.report.finding_counts)
        for row in one.report.finding_places:
            place = ", ".join((row["kind"], row["topic"], row["consumer_group"] or "-"))
            places[place] += row["finding_count"]
    topics = _topics(audited, owners)
    groups = _groups(audited, owners)
    minutes = _by_minute(audited)
    user_topics = [row for row in topics if is_user_topic(row.topic)]
    report = ClusterReport(
        made_ms=now_ms,
        verdict=worst([one.verdict for one in looked], problems),
        coverage=looked,
        problems=list(problems),
        finding_counts=dict(sorted(counts.items())),
        finding_places=dict(places.most_common()),
        steps=advice.steps(counts),
        owners=_owners(audited, user_topics, groups, owners, minutes),
        topics=user_topics,
        inner_topics=[row for row in topics if not is_user_topic(row.topic)],
        groups=groups,
        times=spreads(audited),
        minutes=_last_day(minutes),
    )
    if before is None:
        return report
    return _with_changes(report, before)


def worst(verdicts: Sequence[AuditVerdict], problems: Sequence[str]) -> AuditVerdict:
    """A loss is told before what could not be looked at. Nothing looked at is never PASS."""
    if AuditVerdict.FAIL in verdicts:
        return AuditVerdict.FAIL
    if problems or not verdicts or AuditVerdict.INCOMPLETE in verdicts:
        return AuditVerdict.INCOMPLETE
    return AuditVerdict.PASS


def _with_changes(report: ClusterReport, before: Mapping[str, Any]) -> ClusterReport:
    told = asdict(report)
    fields = {name: getattr(report, name) for name in told}
    fields |= {"changes": changes.between(before, told), "before_ms": before["made_ms"]}
    return ClusterReport(**fields)


def _topics(audited: Sequence[AuditedBroker], owners: Owners) -> list[TopicSums]:
    found: dict[str, Traffic] = {}
    for one in audited:
        for topic, traffic in one.stored.items():
            found[topic] = found.get(topic, NOTHING).plus(traffic)
    return [
        TopicSums(
            topic=topic,
            owner=owners.of_topic(topic),
            stored=traffic.count,
            stored_bytes=traffic.size_bytes,
        )
        for topic, traffic in sorted(found.items())
    ]


def _groups(audited: Sequence[AuditedBroker], owners: Owners) -> list[GroupSums]:
    found: dict[Taken, Counter[str]] = {}
    for one in audited:
        for taken, row in one.balance.items():
            sums = found.setdefault(taken, Counter())
            sums.update({name: row[name] for name in ("stored", *_COUNTS)})
            sums["again"] += row["again_after_expiry"] + row["again_after_move"]
            left = row["not_leased"]
            for name, count in (("ready", one.ready), ("skipped", one.skipped)):
                sums[name] += (part := max(0, min(left, count.get(taken, 0))))
                left -= part
            sums["passed"] += left
    return [
        GroupSums(
            topic=topic,
            consumer_group=group,
            owner=owners.of_taken(topic, group),
            stored=sums["stored"],
            counts={name: sums[name] for name in (*_COUNTS, "ready", "skipped", "passed")},
            again=sums["again"],
        )
        for (topic, group), sums in sorted(found.items())
    ]


def _owners(
    audited: Sequence[AuditedBroker],
    topics: Sequence[TopicSums],
    groups: Sequence[GroupSums],
    owners: Owners,
    minutes: Mapping[str, Mapping[int, int]],
) -> list[OwnerSums]:
    """Those with the most bytes first. `topics`: those that clients may use."""
    user_groups = [row for row in groups if is_user_topic(row.topic)]
    findings = Counter[str]()
    for one in audited:
        for place in one.report.finding_places:
            whose = owners.of_taken(place["topic"], place["consumer_group"] or "")
            findings[whose] += place["finding_count"]
    names = {row.owner for row in topics} | {row.owner for row in user_groups} | set(findings)
    found = []
    for name in names:
        own_topics = [row for row in topics if row.owner == name]
        own_groups = [row for row in user_groups if row.owner == name]
        counts = Counter[str]()
        for row in own_groups:
            counts.update(row.counts)
        rate_per_s, peak_per_s = _rates(minutes.get(name, {}))
        found.append(
            OwnerSums(
                owner=name,
                topics=len(own_topics),
                groups=len({row.consumer_group for row in own_groups}),
                stored=sum(row.stored for row in own_topics),
                stored_bytes=sum(row.stored_bytes for row in own_topics),
                rate_per_s=rate_per_s,
                peak_per_s=peak_per_s,
                counts=dict(counts),
                findings=findings[name],
                store_to_ack=spread(audited, _STORE_TO_ACK, owner=name),
            )
        )
    return sorted(found, key=lambda row: (-row.stored_bytes, row.owner))


def _by_minute(audited: Sequence[AuditedBroker]) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {}
    for one in audited:
        for owner, minutes in one.minutes.items():
            sums = found.setdefault(owner, Counter())
            sums.update({minute_ms: traffic.count for minute_ms, traffic in minutes.items()})
    return found


def _rates(minutes: Mapping[int, int]) -> tuple[float, float]:
    if not minutes:
        return 0.0, 0.0
    span_s = (max(minutes) - min(minutes) + MINUTE_MS) / 1_000
    return sum(minutes.values()) / span_s, max(minutes.values()) * 1_000 / MINUTE_MS


def _last_day(found: Mapping[str, Mapping[int, int]]) -> dict[str, list[list[int]]]:
    last_ms = max((max(minutes) for minutes in found.values()), default=0)
    first_ms = last_ms - (MINUTES_MAX - 1) * MINUTE_MS
    return {
        owner: [[at_ms, count] for at_ms, count in sorted(minutes.items()) if at_ms >= first_ms]
        for owner, minutes in sorted(found.items())
    }
