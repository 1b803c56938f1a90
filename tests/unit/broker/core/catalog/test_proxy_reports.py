"""What does a broker keep of what proxies leave with it?"""

from typing import Any

import pytest

from popmq_broker.core.catalog import proxy_reports as it
from popmq_broker.core.catalog.proxy_reports import ProxyReports
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link

FRONT = link.Setting(name="POPMQ_PROXY_FRONT", value="http2", source="default")


def line(number: int, at_ms: int = 0, **fields: Any) -> link.AuditLine:
    return link.AuditLine(number=number, at_ms=at_ms or number, what="change", **fields)


def report(*lines: link.AuditLine, proxy: str = "p", started_ms: int = 1) -> link.ProxyReport:
    return link.ProxyReport(id=proxy, name=proxy.upper(), started_ms=started_ms, lines=lines)


def numbers(reports: ProxyReports, count: int = 1_000, **wanted: object) -> list[int]:
    lines = link.WantedLines(count_max=count, **wanted)  # type: ignore[arg-type]
    shown = reports.shown(link.ShowProxies(lines=lines), 0)
    return [one.number for one in shown.lines]


def test_a_broker_says_what_it_lacks() -> None:
    reports = ProxyReports()
    reply = reports.heard(report(), 0)
    assert (reply.knows_settings, reply.next_line) == (False, 0)
    full = report(line(0), line(1))
    full.settings.append(FRONT)
    reply = reports.heard(full, 0)
    assert (reply.knows_settings, reply.next_line) == (True, 2)
    assert reports.heard(report(), 0).knows_settings


def test_a_line_that_is_told_twice_is_kept_once() -> None:
    reports = ProxyReports()
    reports.heard(report(line(0), line(1)), 0)
    reports.heard(report(line(1), line(2)), 0)
    assert numbers(reports) == [2, 1, 0]


def test_a_proxy_that_started_again_begins_anew() -> None:
    reports = ProxyReports()
    reports.heard(report(line(0), line(1)), 0)
    assert reports.heard(report(started_ms=2), 0).next_line == 0
    reports.heard(report(line(0, 50), started_ms=2), 0)
    (shown,) = reports.shown(link.ShowProxies(), 0).proxies
    assert (shown.lines, shown.left_out, shown.started_ms) == (1, 0, 2)


def test_the_newest_lines_of_all_proxies_are_shown_first_and_no_more_than_asked_for() -> None:
    reports = ProxyReports()
    reports.heard(report(line(0, 10), line(1, 30), proxy="a"), 0)
    reports.heard(report(line(0, 20), line(1, 40), proxy="b"), 0)
    wanted = link.ShowProxies(lines=link.WantedLines(count_max=3))
    shown = reports.shown(wanted, 0)
    assert [(one.proxy, one.at_ms) for one in shown.lines] == [("b", 40), ("a", 30), ("b", 20)]
    assert shown.more
    wanted.lines.before_ms = 20
    shown = reports.shown(wanted, 0)
    assert ([one.at_ms for one in shown.lines], shown.more) == ([10], False)


def test_lines_are_found_by_a_text_in_any_field() -> None:
    reports = ProxyReports()
    fields = ["user", "address", "call", "resource", "outcome", "target"]
    reports.heard(report(*[line(at, 0, **{name: "Ünd"}) for at, name in enumerate(fields)]), 0)
    assert numbers(reports, text="üN") == [5, 4, 3, 2, 1, 0]
    assert numbers(reports, text="nobody") == []
    assert numbers(reports, what="refused") == []


def test_each_proxy_has_its_share_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it, "LINES_MAX", 20)
    reports = ProxyReports()
    reports.heard(report(*map(line, range(30)), proxy="a"), 0)
    assert len(numbers(reports)) == 20
    reports.heard(report(*map(line, range(30)), proxy="b"), 0)
    reports.heard(report(line(30), proxy="a"), 0)
    shown = reports.shown(link.ShowProxies(), 0).proxies
    assert [(one.lines, one.left_out) for one in shown] == [(31, 21), (30, 20)]


def test_who_was_silent_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it, "PROXIES_MAX", 2)
    reports = ProxyReports()
    for at, name in enumerate(["a", "b", "a", "c"]):
        reports.heard(report(proxy=name), at)
    shown = reports.shown(link.ShowProxies(), 10).proxies
    assert [(one.id, one.silent_ms) for one in shown] == [("a", 8), ("c", 7)]
    late_ms = it.SILENT_MS_MAX + 3
    assert [one.id for one in reports.shown(link.ShowProxies(), late_ms).proxies] == ["c"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (link.ProxyReport(), "without its id"),
        (report(*map(line, range(it.REPORT_LINES_MAX + 1))), "too long"),
        (report(line((1 << 63) - 1)), "a number that no line has"),
        (report(line(-1)), "a number that no line has"),
        (link.ProxyReport(id="p", settings=[FRONT] * (it.REPORT_SETTINGS_MAX + 1)), "too long"),
        (report(line(0, user="x" * (it.TEXT_CHARS_MAX + 1))), "user of a proxy's report has"),
        (report(proxy="x" * (it.TEXT_CHARS_MAX + 1)), "id of a proxy's report has"),
    ],
)
def test_a_report_that_is_too_large_is_refused_and_nothing_of_it_is_kept(
    wrong: link.ProxyReport, why: str
) -> None:
    reports = ProxyReports()
    with pytest.raises(BadRequest, match=why):
        reports.heard(wrong, 0)
    assert not reports.shown(link.ShowProxies(), 0).proxies
