"""The judge of `make bench-peers`, its medians and ratios, and what its page says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare.failure import BenchFailure
from peers import prerequisites, report, results
from peers.clients import end
from peers.command import parser, plan_of
from peers.judge import Verdict, judge, percentile, runs_of
from peers.results import PeersRecord, PeerStart, Turn
from peers.servers import Commands
from peers.turns import turn_of
from peers.weaknesses import weaknesses


def turn(system: str, messages: int, number: int = 1, row: str = "send", **changes: Any) -> Turn:
    made = Turn(
        system=system,
        processes=1,
        row=row,
        round=number,
        messages=messages,
        seconds=2.0,
        server_cpu_us=20.0,
        client_cpu_us=30.0,
        p50_ms=1.0,
        p99_ms=4.0,
        confirmed=messages,
        missing=0,
        duplicates=0,
        unconfirmed=0,
    )
    return replace(made, **changes)


def record(*turns: Turn) -> PeersRecord:
    return PeersRecord(
        started="2031-02-03T04:05:06+00:00",
        machine={"host": "h", "processor": "p", "cores": 2, "memory_gib": 8, "kernel": "k"},
        versions={"redis": "Redis server v=7.0.15 sha=0:0", "nats": "nats-server: v2.1.0"},
        settings={
            "systems": list(dict.fromkeys(one.system for one in turns)),
            "rows": ["send", "receive"],
            "processes": [1],
            "rounds": 3,
            "length": {"seconds": 5.0, "messages_max": 10},
        },
        turns=list(turns),
        starts=[PeerStart("popmq", 1, 0.5, 60.0, 70.0), PeerStart("redis", 1, 0.1, 3.0, 90.0)],
    )


def test_numbers_travel_as_runs() -> None:
    assert runs_of(7, [3, 1, 2, 9]) == [(7, 1, 3), (7, 9, 9)]
    assert runs_of(7, [1, 2, 2]) == [(7, 1, 2), (7, 2, 2)]
    assert runs_of(7, []) == []


def test_a_confirmed_message_that_was_not_received_is_missing() -> None:
    assert judge([(0, 1, 4), (1, 1, 2)], [(0, 1, 3), (1, 1, 2)]) == Verdict(6, 5, 1, 0, 0)


def test_messages_received_twice_or_unconfirmed_are_counted_apart() -> None:
    assert judge([(0, 1, 2)], [(0, 1, 3), (0, 2, 2)]) == Verdict(2, 3, 0, 1, 1)


def test_another_process_s_number_is_another_message() -> None:
    assert judge([(0, 1, 1)], [(1, 1, 1)]).missing == 1


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100)])
def test_percentiles(share: float, value: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value
    assert percentile([], share) is None


def test_a_body_tells_who_sent_it_and_must_be_whole() -> None:
    made = end.body(3, 17)
    assert len(made) == end.SIZE_BYTES
    assert end.stamp(made)[:2] == (3, 17)
    with pytest.raises(ValueError, match="not what was sent"):
        end.stamp(made[:-1])


def test_a_turn_counts_its_window_and_judges_everything() -> None:
    warm = {"confirmed": [[0, 1, 10]], "received": [], "errors": {"Timeout": 1}}
    window = {
        "confirmed": [[0, 11, 30]],
        "received": [],
        "errors": {},
        "latencies_us": [1_000, 3_000],
        "began_ns": 0,
        "last_ns": 2_000_000_000,
        "cpu_s": 0.002,
    }
    drained = {"confirmed": [], "received": [[0, 1, 29]], "errors": {}}
    found = turn_of("redis", "send", 1, 0.004, [window], [warm, window, drained])
    assert (found.messages, found.messages_per_s) == (20, 10.0)
    assert (found.server_cpu_us, found.client_cpu_us) == (200.0, 100.0)
    assert (found.p50_ms, found.p99_ms) == (1.0, 3.0)
    assert (found.confirmed, found.missing, found.errors) == (30, 1, {"Timeout": 1})


def test_ratios_are_of_rounds_not_of_medians() -> None:
    turns = [turn("popmq", count, at) for at, count in enumerate((100, 200, 300), 1)]
    turns += [turn("redis", count, at) for at, count in enumerate((100, 100, 600), 1)]
    found = results.medians(turns)
    ours, theirs = found["popmq", 1, "send"], found["redis", 1, "send"]
    assert results.rate_ratio(ours, theirs) == 1.0
    assert (ours.messages_per_s, ours.spread) == (100.0, 1.0)
    assert results.rate_ratio(ours, None) is None


def test_a_results_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    made, path = record(turn("popmq", 10)), tmp_path / "peers.json"
    results.save(made, path)
    assert results.load(path) == made
    path.write_text('{"format": 1}')
    with pytest.raises(BenchFailure, match="no result of make bench-peers"):
        results.load(path)


def test_weaknesses_are_named_and_small_differences_are_not() -> None:
    turns = [turn("popmq", 100), turn("redis", 200, server_cpu_us=19.9, p99_ms=1.0)]
    made = record(*turns)
    assert weaknesses(results.medians(turns), results.start_medians(made.starts)) == [
        "send, 128 in flight, 1 client process: throughput: Redis Streams (PopMQ 0.50×)",
        "send, 128 in flight, 1 client process: p99: Redis Streams (PopMQ 4.00×)",
        "time to start: Redis Streams (PopMQ 5.00×)",
        "memory after the start: Redis Streams (PopMQ 20.00×)",
    ]


def test_the_best_popmq_stands_for_both() -> None:
    turns = [turn("popmq", 100), turn("popmq-compiled", 200), turn("redis", 200)]
    assert weaknesses(results.medians(turns), {}) == []


def test_the_page_has_ratios_versions_and_what_was_lost() -> None:
    text = report.document(record(turn("popmq", 100), turn("redis", 200, missing=3)), "peers.svg")
    assert "redis 7.0.15; nats 2.1.0" in text
    assert "| Redis Streams | 100 | 0% | 0.50× | 20.0 | 30.0 | 1.00 | 4.00 |" in text
    assert "| Redis Streams | 200 | 3 | 0 | 0 | 0 |" in text
    assert "(peers.svg)" in text
    assert "smoke test" not in text


def test_a_fixed_rate_is_not_compared_by_throughput() -> None:
    made = record(turn("popmq", 2000, row="e2e"), turn("nats", 2000, row="e2e"))
    made.settings["rows"] = ["e2e"]
    assert "| NATS JetStream | 1,000 | 20.0 | 30.0 | 1.00 | 4.00 |" in report.document(made, None)


def test_disturbed_turns_are_counted() -> None:
    made = record(turn("popmq", 100, other_percent=30.0), turn("redis", 100, other_percent=1.0))
    assert "In 1 of 2 turns" in report.document(made, None)
    assert "other processes" not in report.document(record(turn("popmq", 100)), None)


def test_a_short_run_is_called_one() -> None:
    made = record(turn("popmq", 100))
    made.settings["rounds"] = 1
    assert "This was a smoke test" in report.document(made, None)


def test_what_is_missing_is_named_with_what_mends_it(tmp_path: Path) -> None:
    nothing = tmp_path / "none"
    commands = Commands(nothing, nothing, nothing, nothing, nothing, nothing, cores=None)
    lines = prerequisites.missing(commands, ["redis", "rabbitmq-classic"], plot=False)
    assert lines[0] == f"{nothing} is missing: apt-get install redis-server"
    assert lines[1] == f"{nothing} is missing: apt-get install rabbitmq-server"
    assert lines[-1] == f"{nothing} is missing: make .venv-peers/.ready"


@pytest.mark.parametrize(
    "words",
    [["--systems", "kafka"], ["--rows", "fly"], ["--processes", "one"], ["--rounds", "0"]],
)
def test_options_that_make_no_plan_are_refused(words: list[str]) -> None:
    with pytest.raises(BenchFailure):
        plan_of(parser().parse_args(words))


def test_a_plan() -> None:
    plan = plan_of(parser().parse_args(["--systems", "popmq,nats", "--processes", "1,4"]))
    assert (plan.systems, plan.processes) == (["popmq", "nats"], [1, 4])
    assert plan.estimate_s() > 0
