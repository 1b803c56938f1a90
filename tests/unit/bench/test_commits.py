"""Two commits beside each other: what is named, and the line of the table."""

from unit.bench.made import record, report

from commits import table
from compare.record import RowRun
from compare.results import RowSummary, summarize
from compare.systems import EARLIER, Case
from compare.workloads import ROWS


def pair(now_us: list[float], before_us: list[float]) -> tuple[RowSummary, RowSummary]:
    """CPU of the proxy, µs a message, by turn; the broker adds 100 to each."""
    made = record({})
    for system, values in (("popmq", now_us), (EARLIER, before_us)):
        for turn, proxy_us in enumerate(values, 1):
            told = report()
            told["cpu"]["proxy"] = {"cpu_us_per_message": proxy_us}
            made.rows.append(RowRun(system, "sync", turn, "send-16", told))
    rows = summarize(made).rows
    return rows[Case("popmq", "sync"), "send-16"], rows[Case(EARLIER, "sync"), "send-16"]


def test_a_slow_minute_that_both_have_is_no_change() -> None:
    (found,) = table.changes({"send-16": pair([100.0, 300.0, 100.0], [100.0, 300.0, 100.0])})
    assert (found.cpu_ratio, found.throughput_ratio, found.spread) == (1.0, 1.0, 0.0)
    assert not found.is_named


def test_more_cpu_in_most_pairs_is_named() -> None:
    (found,) = table.changes({"send-16": pair([120.0, 120.0, 100.0], [100.0, 100.0, 100.0])})
    assert found.cpu_ratio == 1.1
    assert found.is_named
    assert "CPU 1.10×" in table.text([found])
    assert table.text([found]).endswith("SLOWER")


def test_the_line_has_a_cell_for_each_row() -> None:
    (found,) = table.changes({"send-16": pair([120.0], [100.0])})
    told = {"date": "2031-02-03", "commit": "abc", "before": "def", "machine": "p, 2 cores"}
    cells = table.line([found], **told).strip().strip("|").split("|")
    assert len(cells) == 4 + len(ROWS)
    assert cells[5].strip() == "220 **1.10×** (0.00)"
    assert cells[4].strip() == "–"
