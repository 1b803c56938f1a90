"""The report as one page that needs nothing else: no server, no network, readable on a phone."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from popmq_common.records.names import is_user_topic
from popmq_pipelines.audit.verdict import FINDINGS_SHOWN_MAX, TWICE, AuditVerdict, Report
from popmq_pipelines.report.html_parts import document, table
from popmq_pipelines.report.report_charts import Points, chart
from popmq_pipelines.report.report_text import HEADINGS, STATES, cells, command, spoken_time

_FLOW_WIDTH: Final = 530
_ROW_HEIGHT: Final = 30
_BAR_LEAST: Final = 2.0
"""Pixels: what is there is seen, be it one message of a million."""

_MEANING: Final[Mapping[AuditVerdict, str]] = {
    AuditVerdict.PASS: "Everything was looked at, and all of it is accounted for.",
    AuditVerdict.FAIL: "Something is missing, or there twice.",
    AuditVerdict.INCOMPLETE: "The snapshot is not whole: nothing can be said.",
}


def page(report: Report, snapshot: Path) -> str:
    """`snapshot`: where it lies, for the commands that the page names."""
    parts = [
        _head(report),
        _problems(report),
        _flow(report.balance),
        _findings(report, snapshot),
        _over_time(report),
        _again(report),
        _balance(report.balance),
        _revive(report.revive),
        _signature(report),
    ]
    body = "\n".join(part for part in parts if part)
    return document(f"{report.verdict}: {report.snapshot_id}", body)


def _head(report: Report) -> str:
    facts = [f"snapshot {html.escape(report.snapshot_id)}"]
    if report.as_of_ms is not None:
        facts.append(f"as of {spoken_time(report.as_of_ms)}")
    if report.log_end is not None:
        facts.append(f"log offsets {report.log_start:,} to {report.log_end:,}")
    leases = sum(report.lease_states.values())
    if leases:
        facts.append(f"{leases:,} leases")
    told = "".join(f"<li>{fact}</li>" for fact in facts)
    return (
        f"<header class={report.verdict.lower()}><h1>{report.verdict}</h1>"
        f"<p>{_MEANING[report.verdict]}</p><ul>{told}</ul></header>"
    )


def _problems(report: Report) -> str:
    if not report.problems:
        return ""
    told = "".join(f"<li>{html.escape(problem)}</li>" for problem in report.problems)
    return f"<section><h2>Why</h2><ul>{told}</ul></section>"


def _flow(balance: Sequence[Mapping[str, Any]]) -> str:
    """From what is stored to where it stands, over all topics and groups."""
    counts = {state: sum(int(row[state]) for row in balance) for state in STATES}
    shown = {state: count for state, count in counts.items() if count}
    if not shown:
        return ""
    total = sum(shown.values())
    height = len(shown) * _ROW_HEIGHT
    bars, top = [], 0.0
    for row, (state, count) in enumerate(shown.items()):
        text, kind = STATES[state]
        share = max(_BAR_LEAST, height * count / total)
        middle = row * _ROW_HEIGHT + _ROW_HEIGHT / 2
        thick = max(_BAR_LEAST, (_ROW_HEIGHT - 8) * min(1.0, count / max(shown.values())))
        bars.append(
            f'<path class={kind} d="M60 {top:.1f} V{top + share:.1f} C180 {top + share:.1f} 180'
            f" {middle + thick / 2:.1f} 300 {middle + thick / 2:.1f} V{middle - thick / 2:.1f}"
            f' C180 {middle - thick / 2:.1f} 180 {top:.1f} 60 {top:.1f}Z"/>'
            f"<text x=310 y={middle + 4:.1f}>{count:,} {text}</text>"
        )
        top += share
    return (
        f"<section><h2>Where messages stand</h2><p>{total:,} messages, once for each group that"
        " takes its topic.</p>"
        f'<svg viewBox="0 0 {_FLOW_WIDTH} {max(top, height) + 6:.0f}" role=img'
        f' aria-label="stored messages by state">{"".join(bars)}</svg></section>'
    )


def _findings(report: Report, snapshot: Path) -> str:
    if not report.findings:
        return ""
    kinds = "".join(
        f"<li><b>{count:,}</b> {html.escape(kind.replace('_', ' '))}</li>"
        for kind, count in report.finding_counts.items()
    )
    total = sum(report.finding_counts.values())
    more = f"<p>The first {FINDINGS_SHOWN_MAX:,} of {total:,} are shown.</p>"
    rows = [[*cells(found), command(found, snapshot)] for found in report.findings]
    return (
        f"<section><h2>Findings</h2><ul>{kinds}</ul>{more if total > len(rows) else ''}"
        f"{table([*HEADINGS.values(), 'what is known of it'], rows)}</section>"
    )


def _over_time(report: Report) -> str:
    """How many were stored and where they stand, how long they took, how far the journal is."""
    balance = {
        name: [(row["minute_ms"], row[name]) for row in report.minutes]
        for name in ("stored", *STATES)
        if name == "stored" or any(row[name] for row in report.minutes)
    }
    latency = {
        f"{span}, {name[:3]}": [
            (row["minute_ms"], row[name]) for row in report.latency if row["span"] == span
        ]
        for span in dict.fromkeys(sorted(row["span"] for row in report.latency))
        for name in ("p50_ms", "p99_ms")
    }
    lags = {
        spoken: [
            (row["as_of_ms"], row[name]) for row in report.revive_history if row[name] is not None
        ]
        for spoken, name in _JOURNAL.items()
    }
    charts = [
        chart("Messages stored a minute, and where they stand now", "", _spoken(balance)),
        chart("How long they took, of the slowest group", "ms", latency),
        *(chart(name, _UNITS[name], {name: points}) for name, points in lags.items()),
    ]
    told = "".join(charts)
    return f"<section><h2>Over time</h2>{told}</section>" if told else ""


_JOURNAL: Final = {
    "Records of the journal that a start reads again": "lag_count",
    "Age of the oldest open lease": "oldest_open_age_ms",
}
_UNITS: Final = dict(zip(_JOURNAL, ("", "ms"), strict=True))


def _spoken(series: Mapping[str, Points]) -> dict[str, Points]:
    return {name.replace("_", " "): points for name, points in series.items()}


def _again(report: Report) -> str:
    """Why messages came more than once: causes that are as they should be, then faults."""
    rows = [[why, "as it should be", f"{count:,}"] for why, count in report.again.items() if count]
    rows += [
        [kind, "fault", f"{count:,}"]
        for kind, count in report.finding_counts.items()
        if kind in TWICE
    ]
    if not rows:
        return ""
    heads = ["why", "is", "times"]
    return f"<section><h2>Handed out or stored again</h2>{table(heads, rows)}</section>"


def _signature(report: Report) -> str:
    if not report.signature:
        return ""
    told = html.escape(report.signature)
    return (
        f"<footer>Looked at: {len(report.judged):,} snapshots' messages, up to log offset "
        f"{report.watermark:,}. Signature of the tables: <code>{told}</code></footer>"
    )


def _balance(balance: Sequence[Mapping[str, Any]]) -> str:
    if not balance:
        return ""
    heads = ["topic", "group", "stored", *(state.replace("_", " ") for state in STATES)]
    rows = [
        [row["topic"], row["consumer_group"], *(f"{row[name]:,}" for name in ("stored", *STATES))]
        for row in balance
    ]
    about = "Stored is the sum of the columns behind it, in each row."
    inner = [row for row in rows if not is_user_topic(row[0])]
    told = table(heads, [row for row in rows if is_user_topic(row[0])])
    if inner:
        told += f"<details><summary>Inner topics</summary>{table(heads, inner)}</details>"
    return f"<section><h2>Balance</h2><p>{about}</p>{told}</section>"


def _revive(revive: Sequence[Mapping[str, Any]]) -> str:
    if not revive:
        return ""
    columns = {
        "queue_id": "queue",
        "end_offset": "records",
        "lag_count": "read again at a start",
        "lease_count": "leases",
        "in_flight_count": "in flight",
        "overdue_count": "overdue",
        "orphan_ack_count": "acks without lease",
    }
    rows = [["–" if row[name] is None else f"{row[name]:,}" for name in columns] for row in revive]
    return f"<section><h2>Revive queues</h2>{table(list(columns.values()), rows)}</section>"
