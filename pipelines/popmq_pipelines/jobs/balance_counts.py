"""What clients have counted, balanced with the newest snapshots of all brokers of a cluster.

A minute is judged if every broker's snapshot reaches behind the report that tells of it, and the
log behind its begin. What a report says of a later or older minute waits, or is no longer judged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.counts import both_ends
from popmq_pipelines.counts.both_ends import MINUTE_MS, SETTLED_AFTER_MS
from popmq_pipelines.frames.partitioning import union
from popmq_pipelines.report.report_text import spoken_time
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot import snapshots as kept_snapshots
from popmq_pipelines.tables import opened_snapshot, results
from popmq_pipelines.tables.opened_snapshot import OpenedSnapshot
from popmq_pipelines.tables.session import fitted

FINDINGS_MAX: Final = 1_000
CLIENTS_MAX: Final = 10_000
GROUPS_MAX: Final = 1_000
NEVER: Final = (1 << 62) - 1
_OF_BROKERS: Final = ("commitlog_index", "pop_checkpoints", "pop_acks")
_OF_CLIENTS: Final = ("client_reports", "client_counts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    verdict: AuditVerdict
    problems: Sequence[str] = ()
    """Why it is not all that clients have told, or nothing can be said."""
    findings: Sequence[Mapping[str, Any]] = ()
    """`kind`, `topic`, `consumer_group` or `id_prefix`, `minute_ms`, `finding_count`."""
    sent: Sequence[Mapping[str, Any]] = ()
    """By topic: `sent`, `unknown`, `refused`, `stored`, of those who count."""
    taken: Sequence[Mapping[str, Any]] = ()
    """By topic and group: `received`, `leased`."""
    acked: Sequence[Mapping[str, Any]] = ()
    not_counting: Sequence[Mapping[str, Any]] = ()
    """By topic: `stored` messages of clients that count nothing."""
    clients: int = 0
    brokers: Sequence[str] = field(default_factory=tuple)


def balance_counts(
    spark: SparkSession, snapshots: Sequence[OpenedSnapshot], *, skew_ms: int
) -> Balance:
    """`snapshots`: one of each broker; `skew_ms`: by how much their clocks may differ."""
    broken = [f"{one.id}: {text}" for one in snapshots for text in one.problems]
    if broken:
        return Balance(verdict=AuditVerdict.INCOMPLETE, problems=broken)
    rows = sum(one.whole.row_count for one in snapshots)
    with fitted(spark, rows):
        return _balanced(spark, snapshots, skew_ms)


def _balanced(spark: SparkSession, snapshots: Sequence[OpenedSnapshot], skew_ms: int) -> Balance:
    tables = {name: _of_all(spark, snapshots, name) for name in (*_OF_BROKERS, *_OF_CLIENTS)}
    reports = _told_in_time(tables["client_reports"], snapshots, skew_ms)
    brokers = tuple(one.whole.broker for one in snapshots)
    clients = results.taken(_clients(reports), CLIENTS_MAX)
    if not clients:
        text = "no client has reported what it counted (Client(counts=True) or POPMQ_COUNTS=1)"
        return Balance(verdict=AuditVerdict.INCOMPLETE, problems=[text], brokers=brokers)
    since_ms = max(_kept_since_ms(one) + skew_ms for one in snapshots)
    counts = both_ends.told_once(tables["client_counts"], reports)
    counts = counts.where(F.col("minute_ms") >= F.lit(since_ms))
    sides = [_producers(spark, tables, counts, clients, since_ms)]
    consumers_since_ms = max(_leases_since_ms(one) for one in snapshots)
    sides += _consumers(tables, counts, max(since_ms, consumers_since_ms))
    found = [row for side in sides for row in results.taken(_findings(side), FINDINGS_MAX)]
    problems = _missing(clients, whole_log=all(not one.whole.log_from for one in snapshots))
    if consumers_since_ms == NEVER:
        problems.append("a broker keeps acks out of its journal: what was received is not judged")
    prefixes = _prefixes(spark, clients)
    of_index = both_ends.not_counting(tables["commitlog_index"], prefixes).orderBy("topic")
    verdict = AuditVerdict.INCOMPLETE if problems else AuditVerdict.PASS
    return Balance(
        verdict=AuditVerdict.FAIL if found else verdict,
        problems=problems,
        findings=found[:FINDINGS_MAX],
        sent=_sums(sides[0], ["topic"], "sent", "unknown", "refused", "stored"),
        taken=_sums(sides[1], ["topic", "consumer_group"], "received", "leased"),
        acked=_sums(sides[2], ["topic", "consumer_group"], "acked", "ended"),
        not_counting=results.taken(of_index, GROUPS_MAX),
        clients=len(clients),
        brokers=brokers,
    )


def _of_all(spark: SparkSession, snapshots: Sequence[OpenedSnapshot], name: str) -> DataFrame:
    found = [
        opened_snapshot.read_table(spark, one, name).withColumn("broker", F.lit(one.whole.broker))
        for one in snapshots
    ]
    return union(*found)


def _told_in_time(
    reports: DataFrame, snapshots: Sequence[OpenedSnapshot], skew_ms: int
) -> DataFrame:
    """Reports behind which all that they tell lies in the snapshots: their own broker's log has it
    before them, the others' snapshots reach so far."""
    in_time = F.lit(False)
    for one in snapshots:
        others = [other for other in snapshots if other is not one]
        until_ms = min((_reaches_ms(other) - skew_ms for other in others), default=NEVER)
        own = F.col("broker") == F.lit(one.whole.broker)
        in_time = in_time | (own & (F.col("store_timestamp_ms") <= F.lit(until_ms)))
    return reports.where(in_time)


def _reaches_ms(snapshot: OpenedSnapshot) -> int:
    """A broker that was stopped has stored nothing since, until it was looked at."""
    manifest = snapshot.whole
    return manifest.as_of_ms if manifest.running_since_ms else manifest.moment_ms


def _kept_since_ms(snapshot: OpenedSnapshot) -> int:
    """The first minute of which nothing was deleted."""
    manifest = snapshot.whole
    return manifest.log_first_ms + MINUTE_MS if manifest.log_from else 0


def _leases_since_ms(snapshot: OpenedSnapshot) -> int:
    """From when on all leases and acks are in the journal."""
    told_from = opened_snapshot.told_from(snapshot)
    if told_from is None:
        return NEVER
    if told_from == 0:
        return 0
    since_ms = opened_snapshot.journal_ms(snapshot, told_from)
    return NEVER if since_ms is None else since_ms + MINUTE_MS


def _clients(reports: DataFrame) -> DataFrame:
    once = reports.dropDuplicates(["client_id", "sequence"])
    return (
        once.groupBy("client_id", "id_prefix")
        .agg(
            F.count("*").alias("report_count"),
            F.min("sequence").alias("first"),
            F.max("sequence").alias("last"),
            F.max("until_ms").alias("until_ms"),
            F.max("is_last").alias("is_last"),
            F.sum("uncounted").alias("uncounted"),
        )
        .orderBy("client_id")
    )


def _is_gapless(client: Mapping[str, Any]) -> bool:
    return bool(client["last"] - client["first"] + 1 == client["report_count"])


def _missing(clients: Sequence[Mapping[str, Any]], *, whole_log: bool) -> list[str]:
    found = []
    for one in clients:
        lacking = one["last"] - one["first"] + 1 - one["report_count"]
        lacking += one["first"] if whole_log else 0
        if lacking:
            found.append(f"{lacking} of {one['last'] + 1} reports of {one['client_id']} are lost")
        if one["uncounted"]:
            found.append(f"{one['client_id']} has not counted {one['uncounted']} messages")
    return found


def _producers(
    spark: SparkSession,
    tables: Mapping[str, DataFrame],
    counts: DataFrame,
    clients: Sequence[Mapping[str, Any]],
    since_ms: int,
) -> DataFrame:
    claims = both_ends.claimed(counts, both_ends.SENT_BY, "sent", "unknown", "refused")
    facts = both_ends.stored(tables["commitlog_index"], _prefixes(spark, clients))
    facts = facts.where(F.col("minute_ms") >= F.lit(since_ms))
    told = [
        (one["id_prefix"], NEVER if one["is_last"] else one["until_ms"] - SETTLED_AFTER_MS)
        for one in clients
        if _is_gapless(one) and not one["uncounted"]
    ]
    complete = spark.createDataFrame(told, "id_prefix string, told_until_ms bigint")
    return both_ends.of_producers(claims, facts, complete)


def _prefixes(spark: SparkSession, clients: Sequence[Mapping[str, Any]]) -> DataFrame:
    return spark.createDataFrame([(one["id_prefix"],) for one in clients], "id_prefix string")


def _consumers(
    tables: Mapping[str, DataFrame], counts: DataFrame, since_ms: int
) -> list[DataFrame]:
    judged = counts.where(F.col("minute_ms") >= F.lit(since_ms))
    leases = both_ends.leases(tables["pop_checkpoints"], tables["pop_acks"])
    index = tables["commitlog_index"]
    leased = both_ends.taken(leases.where("was_handed_out"), index, "leased")
    ended = both_ends.taken(leases.where("is_acked"), index, "ended")
    received = both_ends.claimed(judged, both_ends.TAKEN_BY, "received")
    acked = both_ends.claimed(judged, both_ends.TAKEN_BY, "acked")
    return [
        both_ends.of_consumers(
            *(received, leased, "received", "leased"),
            *("received without lease", "received, and others leased"),
        ),
        both_ends.of_consumers(
            *(acked, ended, "acked", "ended"), *("acked without ack", "acked, and others ended")
        ),
    ]


def _findings(side: DataFrame) -> DataFrame:
    wanted = ["kind", "topic", "consumer_group", "id_prefix", "minute_ms", "finding_count"]
    return (
        side.where(F.col("kind").isNotNull())
        .select(*(name for name in wanted if name in side.columns))
        .orderBy("kind", "topic", "minute_ms")
    )


def _sums(side: DataFrame, by: list[str], *columns: str) -> list[dict[str, Any]]:
    added = side.groupBy(*by).agg(*(F.sum(name).alias(name) for name in columns)).orderBy(*by)
    return results.taken(added, GROUPS_MAX)


def text(found: Balance) -> str:
    lines = [f"Both ends: {found.verdict} ({', '.join(found.brokers)}; {found.clients} clients)"]
    lines += [f"  {text}" for text in (*found.problems, *told_findings(found))]
    for row in found.sent:
        open_count = row["unknown"] + row["refused"]
        lines.append(
            f"{row['topic']}: {row['sent']} sent, {row['stored']} stored; of {open_count} it is "
            "not known"
        )
    for row in found.taken:
        lines.append(
            f"{row['topic']} {row['consumer_group']}: {row['received']} received of "
            f"{row['leased']} leased in the same minutes"
        )
    for row in found.acked:
        lines.append(
            f"{row['topic']} {row['consumer_group']}: {row['acked']} acked of {row['ended']} ended"
        )
    lines += [
        f"{row['topic']}: {row['stored']} stored by clients that are not counting"
        for row in found.not_counting
    ]
    return "\n".join(lines)


def told_findings(found: Balance) -> list[str]:
    """A line for each."""
    lines = []
    for row in found.findings:
        whose = row.get("consumer_group") or f"client {row.get('id_prefix', '')}…"
        minute = spoken_time(row["minute_ms"])
        lines.append(
            f"{row['kind']}: {row['finding_count']} in {row['topic']} of {whose}, in the minute "
            f"from {minute}"
        )
    return lines


def as_json(found: Balance) -> str:
    return json.dumps(asdict(found), indent=1)


def newest(folders: Sequence[Path], key: bytes | None) -> list[OpenedSnapshot]:
    """Of each broker the newest snapshot that is one of these folders, or lies in one. Raises
    `NoSnapshot`."""
    chosen: dict[str, tuple[int, Path]] = {}
    for folder in folders:
        for destination, kept in kept_snapshots.look(str(folder)):
            for one in kept:
                place = Path(destination.at(one.folder))
                known = chosen.get(one.manifest.broker)
                if known is None or one.manifest.moment_ms >= known[0]:
                    chosen[one.manifest.broker] = (one.manifest.moment_ms, place)
    if not chosen:
        raise manifests.NoSnapshot(f"there is no snapshot in {', '.join(map(str, folders))}")
    return [opened_snapshot.open_snapshot(place, key) for _, (_, place) in sorted(chosen.items())]
