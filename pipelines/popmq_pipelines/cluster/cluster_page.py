"""The cluster's report as one page, for who decides and did not run the audit."""

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.cluster.cluster_report import ClusterReport, GroupSums, OwnerSums, TopicSums
from popmq_pipelines.cluster.coverage import Coverage
from popmq_pipelines.cluster.time_spread import ATTEMPTS_APART, TimeSpread
from popmq_pipelines.cluster.words import (
    COUNTS,
    bytes_told,
    covered,
    ms_told,
    never_looked_at,
    owner_told,
    share,
)
from popmq_pipelines.report.html_parts import document, table
from popmq_pipelines.report.report_charts import chart
from popmq_pipelines.report.report_text import HEADINGS, cells, command, spoken_time

FINDINGS_SHOWN: Final = 100
OWNERS_SHOWN: Final = 8
"""Lines of a chart."""

MEANING: Final[Mapping[AuditVerdict, str]] = {
    AuditVerdict.PASS: "Every message that was looked at is accounted for.",
    AuditVerdict.FAIL: "Messages are missing, out of place, or there twice.",
    AuditVerdict.INCOMPLETE: "A part of the cluster could not be looked at: there is no verdict.",
}
Shown = Sequence[tuple[str, Mapping[str, Any], Path]]
"""Findings: broker, finding, where the snapshot lies."""


def page(report: ClusterReport, findings: Shown, csv_name: str) -> str:
    """`findings`: the first ones; `csv_name`: of the file beside the page that has all."""
    parts = [
        _head(report),
        _steps(report),
        _changes(report),
        _coverage(report.coverage),
        _owners(report.owners),
        _over_time(report),
        _times(report.times),
        _findings(report, findings, csv_name),
        _groups(report.groups),
        _topics(report),
    ]
    body = "\n".join(part for part in parts if part)
    return document(f"{report.verdict}: all brokers", body)


def _head(report: ClusterReport) -> str:
    stored = sum(row.stored for row in report.topics)
    facts = [
        f"made at {spoken_time(report.made_ms)}",
        f"{len(report.coverage):,} audits",
        f"{stored:,} messages in {len(report.topics):,} topics",
        f"{sum(report.finding_counts.values()):,} findings",
    ]
    told = "".join(f"<li>{html.escape(fact)}</li>" for fact in facts)
    return (
        f"<header class={report.verdict.lower()}><h1>{report.verdict}</h1>"
        f"<p>{MEANING[report.verdict]}</p><ul>{told}</ul></header>"
    )


def _steps(report: ClusterReport) -> str:
    if report.verdict is AuditVerdict.PASS:
        return "<section><h2>What to do</h2><p>Nothing.</p></section>"
    told = [
        f"<li>{html.escape(step.what)} <small>({html.escape(', '.join(step.because))})</small></li>"
        for step in report.steps
    ]
    told += [f"<li>{html.escape(problem)}</li>" for problem in report.problems]
    told += [
        f"<li>{html.escape(one.broker)}: {html.escape(problem)}</li>"
        for one in report.coverage
        for problem in one.problems
    ]
    return f"<section><h2>What to do</h2><ul>{''.join(told)}</ul></section>"


def _changes(report: ClusterReport) -> str:
    if report.before_ms is None:
        return "<section><h2>What changed</h2><p>This is the first report.</p></section>"
    since = f"Since {spoken_time(report.before_ms)}"
    if not report.changes:
        return f"<section><h2>What changed</h2><p>{since}: nothing.</p></section>"
    told = "".join(f"<li>{html.escape(change)}</li>" for change in report.changes)
    return f"<section><h2>What changed</h2><p>{since}:</p><ul>{told}</ul></section>"


def _coverage(coverage: Sequence[Coverage]) -> str:
    heads = ["audit of", "verdict", "looked at, log offsets", "never looked at", "as of"]
    heads += ["snapshots", "findings"]
    rows = [
        [
            one.broker,
            one.verdict.value,
            covered(one),
            never_looked_at(one),
            "–" if one.as_of_ms is None else spoken_time(one.as_of_ms),
            f"{one.snapshots:,}",
            f"{one.findings:,}",
        ]
        for one in coverage
    ]
    about = (
        "What lies behind the last log offset is looked at by the next audit. A log offset is a "
        "place in a broker's log, in bytes."
    )
    return f"<section><h2>What was looked at</h2><p>{about}</p>{table(heads, rows)}</section>"


def _owners(owners: Sequence[OwnerSums]) -> str:
    if not owners:
        return ""
    shown = [name for name in COUNTS if any(row.counts.get(name) for row in owners)]
    heads = ["owner", "topics", "groups", "stored", "bytes", "a second", "a second, peak"]
    heads += [*(COUNTS[name][0] for name in shown), "findings", "store to ack p50", "p99"]
    rows = [
        [
            owner_told(row.owner),
            f"{row.topics:,}",
            f"{row.groups:,}",
            f"{row.stored:,}",
            bytes_told(row.stored_bytes),
            f"{row.rate_per_s:,.1f}",
            f"{row.peak_per_s:,.1f}",
            *(f"{row.counts.get(name, 0):,}" for name in shown),
            f"{row.findings:,}",
            ms_told(row.store_to_ack.p50_ms) if row.store_to_ack else "–",
            ms_told(row.store_to_ack.p99_ms) if row.store_to_ack else "–",
        ]
        for row in owners
    ]
    about = "Messages count once where they are stored, and once for each group that takes them."
    bars = ""
    if len(owners) > 1:
        bars = _bars([(owner_told(row.owner), row.stored_bytes) for row in owners], bytes_told)
    return f"<section><h2>By owner</h2><p>{about}</p>{bars}{table(heads, rows)}</section>"


def _bars(rows: Sequence[tuple[str, int]], told: Callable[[int], str]) -> str:
    """Name and value."""
    most = max((value for _, value in rows), default=0)
    lines = [
        f"<span>{html.escape(name)}</span><i{_width(value, most)}></i><span>{told(value)}</span>"
        for name, value in rows
    ]
    return f"<div class=bars>{''.join(lines)}</div>"


def _width(value: int, most: int) -> str:
    """What is there is seen, be it one of a million."""
    return f' style="width:max(2px,{100 * value / most:.2f}%)"' if value else " style=width:0"


def _over_time(report: ClusterReport) -> str:
    most = [row.owner for row in report.owners[:OWNERS_SHOWN]]
    lines = {
        owner_told(owner): [(at_ms, count) for at_ms, count in report.minutes.get(owner, [])]
        for owner in most
    }
    told = chart("Messages stored a minute, by owner", "", lines)
    return f"<section><h2>Over time</h2>{told}</section>" if told else ""


def _times(times: Sequence[TimeSpread]) -> str:
    if not times:
        return ""
    heads = ["from … to", "delivery", "messages", "p50", "p90", "p99", "slowest"]
    rows = [
        [
            row.span,
            _delivery(row),
            f"{row.message_count:,}",
            *(ms_told(ms) for ms in (row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms)),
        ]
        for row in times
    ]
    whole = {row.span: row for row in reversed(times)}  # the first one of each span is of all
    figures = "".join(_histogram(row) for row in reversed(whole.values()) if len(row.octaves) > 1)
    about = (
        "Of acked messages, and from the client to the log of all. A redelivered message is stored "
        "again as a copy; its times count from there."
    )
    return (
        f"<section><h2>How long messages took</h2><p>{about}</p><div class=charts>{figures}</div>"
        f"{table(heads, rows)}</section>"
    )


def _delivery(row: TimeSpread) -> str:
    if row.attempt == 0:
        return "all"
    return f"{row.attempt} or later" if row.attempt == ATTEMPTS_APART else str(row.attempt)


def _histogram(row: TimeSpread) -> str:
    bits = range(min(row.octaves), max(row.octaves) + 1)
    bars = [
        (f"up to {ms_told(2**bit - 1)}" if bit else "less than 1 ms", row.octaves.get(bit, 0))
        for bit in bits
    ]
    whole = row.message_count

    def told(count: int) -> str:
        return f"{count:,} ({share(count, whole)})" if count else "–"

    title = html.escape(row.span)
    return f"<figure><figcaption>{title}</figcaption>{_bars(bars, told)}</figure>"


def _findings(report: ClusterReport, findings: Shown, csv_name: str) -> str:
    total = sum(report.finding_counts.values())
    if not total:
        return ""
    kinds = "".join(
        f"<li><b>{count:,}</b> {html.escape(kind)}</li>"
        for kind, count in report.finding_counts.items()
    )
    rows = [[broker, *cells(found), command(found, where)] for broker, found, where in findings]
    shown = f"The first {len(rows):,} are shown; " if len(rows) < total else ""
    link = f'<a href="{html.escape(csv_name)}">{html.escape(csv_name)}</a>'
    heads = ["broker", *HEADINGS.values(), "what is known of it"]
    return (
        f"<section><h2>Findings</h2><ul>{kinds}</ul><p>{shown}{link} has all of them.</p>"
        f"{table(heads, rows)}</section>"
    )


def _groups(groups: Sequence[GroupSums]) -> str:
    if not groups:
        return ""
    shown = [name for name in COUNTS if any(row.counts.get(name) for row in groups)]
    heads = ["topic", "group", "owner", "stored", *(COUNTS[name][0] for name in shown)]
    rows = [
        [
            row.topic,
            row.consumer_group,
            owner_told(row.owner),
            f"{row.stored:,}",
            *(f"{row.counts.get(name, 0):,}" for name in shown),
            f"{row.again:,}",
        ]
        for row in groups
    ]
    means = "".join(
        f"<li><b>{html.escape(told)}</b>: {html.escape(about)}</li>"
        for told, about in COUNTS.values()
    )
    return (
        f"<section><h2>What groups have</h2><p>Stored is the sum of the columns behind it, but for "
        f"the last one. States that no message is in are left out.</p>"
        f"<details><summary>What the columns mean</summary><ul>{means}</ul></details>"
        f"{table([*heads, 'redelivered'], rows)}</section>"
    )


def _topics(report: ClusterReport) -> str:
    inner = ""
    if report.inner_topics:
        told = _topic_table(report.inner_topics)
        inner = f"<details><summary>Inner topics</summary>{told}</details>"
    if not report.topics and not inner:
        return ""
    return f"<section><h2>Topics</h2>{_topic_table(report.topics)}{inner}</section>"


def _topic_table(topics: Sequence[TopicSums]) -> str:
    rows = [
        [row.topic, owner_told(row.owner), f"{row.stored:,}", bytes_told(row.stored_bytes)]
        for row in topics
    ]
    return table(["topic", "owner", "stored", "bytes"], rows)
