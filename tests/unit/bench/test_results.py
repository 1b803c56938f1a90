"""Medians, ratios and targets."""

import pytest
from unit.bench.made import record, report

from compare.record import RowRun
from compare.results import TARGETS, Target, Verdict, ratio, row_ratio, summarize, verdicts
from compare.systems import PAIRS, Case
from compare.workloads import ROWS

OURS, THEIRS = Case("popmq", "sync"), Case("rocketmq", "sync")


def test_a_row_is_the_median_of_its_rounds() -> None:
    row = summarize(record({"popmq": [900.0, 3000.0, 1000.0]})).rows[OURS, "send-16"]
    assert (row.rounds, row.messages_per_s, row.spread) == (3, 1000.0, 2.1)
    assert (row.server_cpu_us, row.p50_ms, row.p99_ms) == (300.0, 2.0, 8.0)
    assert row.cpu_us == {"loadgen": 50.0, "broker": 100.0, "proxy": 200.0}


def test_errors_and_losses_add_up_and_the_noisiest_round_is_told() -> None:
    made = record({"popmq": [1.0]})
    bad = report(missing=2, duplicates=3, other_cpu_percent=40.0)
    bad["errors"] = {"TIMEOUT": {"count": 4, "example": "x"}}
    made.rows += [RowRun("popmq", "sync", number, "send-16", bad) for number in (2, 3)]
    row = summarize(made).rows[OURS, "send-16"]
    assert (row.missing, row.duplicates, row.errors) == (4, 6, {"TIMEOUT": 8})
    assert row.other_percent == 40.0


def test_a_row_that_failed_is_told_and_not_in_the_medians() -> None:
    made = record({"popmq": [1000.0]})
    made.rows.append(RowRun("popmq", "sync", 2, "send-16", None, "no answer"))
    summary = summarize(made)
    assert summary.rows[OURS, "send-16"].rounds == 1
    assert summary.failures == ["popmq (sync flush), send-16, round 2: no answer"]


def test_starts_sum_memory_over_processes() -> None:
    start = summarize(record({"popmq": [1.0, 1.0]})).starts[OURS]
    assert (start.startup_s, start.loaded_anonymous_mib, start.loaded_total_mib) == (
        1.0,
        150.0,
        210.0,
    )


def test_an_aborted_start_has_no_memory_under_load() -> None:
    made = record({"popmq": [1.0]})
    made.starts[0].loaded = {}
    assert summarize(made).starts[OURS].loaded_anonymous_mib is None


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [(3.0, 2.0, 1.5), (None, 2.0, None), (1.0, None, None), (1.0, 0.0, None)],
)
def test_ratio(ours: float | None, theirs: float | None, expected: float | None) -> None:
    assert ratio(ours, theirs) == expected


@pytest.mark.parametrize(
    ("at_least", "measured", "met"),
    [
        (True, 2.0, True),
        (True, 1.99, False),
        (False, 2.0, True),
        (False, 2.01, False),
        (True, None, None),
    ],
)
def test_a_bound_itself_is_met(at_least: bool, measured: float | None, met: bool | None) -> None:
    target = Target(PAIRS[0], "send-16", "throughput", 2.0, at_least)
    assert Verdict(target, measured).met is met


def test_verdicts_cover_every_target_and_tell_what_was_not_measured() -> None:
    found = verdicts(summarize(record({"popmq": [2100.0], "rocketmq": [1000.0]})))
    assert [verdict.target for verdict in found] == list(TARGETS)
    measured = {
        (verdict.target.row, verdict.target.measure): (verdict.ratio, verdict.met)
        for verdict in found
        if verdict.ratio is not None
    }
    assert measured == {
        ("send-16", "throughput"): (2.1, True),
        ("send-16", "CPU"): (1.0, False),
        (None, "memory"): (0.1, True),
        (None, "start-up"): (0.1, True),
    }


def test_async_flush_is_not_held_against_the_targets() -> None:
    made = record({"popmq": [2100.0], "rocketmq": [1000.0]})
    made.rows = [RowRun(row.system, "async", row.round, row.row, row.report) for row in made.rows]
    made.starts = []
    assert all(verdict.met is None for verdict in verdicts(summarize(made)))


def test_one_process_is_held_against_one_process() -> None:
    alone = {target.pair for target in TARGETS if target.pair.theirs == "rocketmq-local"}
    assert {pair.ours for pair in alone} == {
        "popmq-standalone",
        "popmq-standalone-compiled",
    }


def test_a_round_in_which_all_was_slow_does_not_move_the_ratio() -> None:
    """Medians of each side alone would say 2,000 ÷ 1,500."""
    rows = summarize(record({"popmq": [2000, 4000, 1000], "rocketmq": [1500, 2000, 500]})).rows
    assert row_ratio(rows[OURS, "send-16"], rows[THEIRS, "send-16"], "throughput") == 2.0


def test_only_rounds_that_both_ran_are_compared() -> None:
    rows = summarize(record({"popmq": [2000, 4000], "rocketmq": [1000]})).rows
    assert row_ratio(rows[OURS, "send-16"], rows[THEIRS, "send-16"], "throughput") == 2.0
    assert row_ratio(rows[OURS, "send-16"], None, "CPU") is None


def test_signed_calls_are_held_against_unsigned_ones_in_every_row() -> None:
    made = record({"popmq": [2000.0], "popmq-signed": [1900.0], "rocketmq": [1000.0]})
    found = [
        verdict
        for verdict in verdicts(summarize(made))
        if verdict.target.pair.ours == "popmq-signed"
    ]
    assert [verdict.target.row for verdict in found] == list(ROWS)
    assert {verdict.target.row: verdict.met for verdict in found if verdict.ratio} == {
        "send-16": True
    }
