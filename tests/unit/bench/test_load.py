"""Reading what loadgen prints."""

import json

from unit.bench.made import report

from compare.load import Latency, figures, parsed


def test_the_servers_cpu_is_summed_without_the_generator() -> None:
    assert figures(report(), "send").server_cpu_us == 300.0


def test_the_row_says_which_latency_counts() -> None:
    told = report(end_to_end={"p50_ms": 5.0, "p99_ms": 50.0})
    assert figures(told, "send").latency == Latency(2.0, 8.0)
    assert figures(told, "end_to_end").latency == Latency(5.0, 50.0)
    assert figures(told, "receive").latency is None


def test_errors_are_counted_by_code_and_may_be_null() -> None:
    told = report(errors={"VIOLATION": {"count": 7, "example": "x"}})
    assert figures(told, "send").errors == {"VIOLATION": 7}
    assert figures(report(errors=None), "send").errors == {}


def test_output_that_is_no_report() -> None:
    assert parsed(b"") is None
    assert parsed(b"[1]") is None
    assert parsed(json.dumps(report()).encode()) == report()
