"""The page and the Markdown say what the text says, whatever topics are called."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from unit.pipelines.report.test_report_text import SNAPSHOT, found, report

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.report.report_html import page
from popmq_pipelines.report.report_markdown import document
from popmq_pipelines.report.report_text import STATES, show_command

EVIL = "<script>alert('&')</script>|x"
VOID = {"meta", "!doctype"}


class Checked(HTMLParser):
    """Every element is closed where it belongs; its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.texts.append(data)


def row(topic: str = "orders", **counts: int) -> dict[str, Any]:
    of = dict.fromkeys(STATES, 0) | counts
    return {"topic": topic, "consumer_group": "billing", "stored": sum(of.values()), **of}


def failed(**changed: Any) -> Report:
    balance = [row(acked=9_000, in_flight=30, overdue=2), row(EVIL, acked=5)]
    revive = [
        {
            "queue_id": 0,
            "end_offset": 12_000,
            "lag_count": None,
            "lease_count": 40,
            "in_flight_count": 30,
            "overdue_count": 2,
            "orphan_ack_count": 0,
        }
    ]
    made = report([found(7, topic=EVIL), found(8)], 2)
    return replace(made, balance=balance, revive=revive, **changed)


def test_the_page_tells_the_verdict_the_counts_and_the_commands() -> None:
    checked = Checked(page(failed(), SNAPSHOT))
    for text in ("FAIL", "9,005 acked", "2 overdue: not revived in time", "9,032", "12,000", "–"):
        assert text in checked.texts, text
    assert show_command(found(8), SNAPSHOT) in checked.texts
    assert checked.seen.count("table") == 3


def test_names_cannot_become_markup() -> None:
    text = page(failed(), SNAPSHOT)
    assert "<script>alert" not in text
    assert Checked(text).seen.count("script") == 1
    assert EVIL.replace("|", "\\|") in document(failed(), SNAPSHOT)


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = page(failed(), SNAPSHOT)
    for word in ("http:", "https:", "src=", "@import", "url("):
        assert word not in text


def test_a_snapshot_that_is_not_whole_says_why_on_both() -> None:
    missing = Report(
        snapshot_id="s1", verdict=AuditVerdict.INCOMPLETE, problems=["pop_acks.parquet is missing"]
    )
    assert "pop_acks.parquet is missing" in Checked(page(missing, SNAPSHOT)).texts
    assert "- pop_acks.parquet is missing" in document(missing, SNAPSHOT)


def test_a_few_of_very_many_are_still_seen_in_the_flow() -> None:
    balance = [row(acked=10_000_000, uncopied=1)]
    text = page(replace(failed(), balance=balance), Path("s"))
    assert "1 ended without the copy" in Checked(text).texts
    assert "path class=bad" in text


def test_markdown_has_a_row_for_each_finding_and_group() -> None:
    lines = document(failed(), SNAPSHOT).splitlines()
    assert lines[0] == "# FAIL: snapshot s1"
    assert "- 2 lease overdue" in lines
    assert "| orders | billing | 9032 | 9000 | 30 | 0 | 0 | 0 | 0 | 2 | 0 |" in lines
    assert any(
        line.startswith("| lease overdue | %RETRY%billing_orders | billing") for line in lines
    )


def of_two_minutes() -> Report:
    minutes = [{"minute_ms": 60_000 * i, **row(acked=9 + i, retried=i)} for i in (1, 2)]
    latency = [
        {"minute_ms": 60_000 * i, "span": "store to ack", "p50_ms": 10, "p99_ms": 900 * i}
        for i in (1, 2)
    ]
    runs = [{"as_of_ms": 90_000, "lag_count": 7, "oldest_open_age_ms": None}]
    return failed(
        minutes=minutes,
        latency=latency,
        revive_history=runs,
        again={"the lease ran out": 5, "the position was moved": 0},
    )


def test_what_happened_over_time_is_drawn() -> None:
    """A line for each state that there is and for each quantile; a lone run is no course."""
    checked = Checked(page(of_two_minutes(), SNAPSHOT))
    assert (checked.seen.count("figure"), checked.seen.count("polyline")) == (2, 5)
    for text in ("stored", "retried", "store to ack, p99", "2 s", "01-01 00:01", "01-01 00:02"):
        assert text in checked.texts, text
    assert "dead" not in checked.texts[checked.texts.index("Over time") :][:20]


def test_why_messages_came_again_is_told() -> None:
    assert "the lease ran out" in Checked(page(of_two_minutes(), SNAPSHOT)).texts
    assert "| the lease ran out | 5 |" in document(of_two_minutes(), SNAPSHOT).splitlines()
    assert "the position was moved" not in document(of_two_minutes(), SNAPSHOT)


def test_each_finding_has_the_command_that_tells_more() -> None:
    asked = "popmq explain 01AB --group billing"
    named = failed(findings=[found(7, message_id="01AB"), found(8, message_id=None)])
    assert asked in Checked(page(named, SNAPSHOT)).texts
    assert f"`{asked}`" in document(named, SNAPSHOT)
    assert show_command(found(8), SNAPSHOT) in Checked(page(named, SNAPSHOT)).texts
