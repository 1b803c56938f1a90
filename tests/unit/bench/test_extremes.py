"""The edges: what is asked of loadgen, and what is made of its reports."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from compare.failure import BenchFailure
from compare.load import Figures
from compare.processes import Memory
from compare.servers import Tools, free_ports, popmq_environment
from extremes import backlog, export, polls, topics
from extremes.command import MISSED, parser, put, tools_of
from extremes.outcome import Figure, Outcome
from extremes.services import Services
from extremes.usage import Sample


def options(*words: str) -> Namespace:
    return parser().parse_args(words)


def polls_report(**changes: Any) -> dict[str, Any]:
    """10,000 parked, 9 % of a core, 399 MiB, p99 of 49 ms: all limits are just kept."""
    idle = {
        "loadgen": {"cpu_percent": 50.0, "rss_mib": 900.0},
        "broker": {"cpu_percent": 5.0, "rss_mib": 199.0},
        "proxy": {"cpu_percent": 4.0, "rss_mib": 200.0},
    }
    parked: dict[str, Any] = {
        "wanted": 10_000,
        "parked": 10_000,
        "parked_after_idle": 10_000,
        "early_empty": 0,
    }
    parked |= {"idle_cpu": idle, "idle_other_cpu_percent": 1.0}
    return {
        "polls": {**parked, **changes},
        "end_to_end": {"p50_ms": 2.0, "p90_ms": 20.0, "p99_ms": 49.0},
        "count": 3_000,
        "missing": 0,
        "other_cpu_percent": 1.0,
    }


def missed(report: dict[str, Any]) -> list[str]:
    return Outcome("polls", {}, polls.figures(report)).missed


def test_polls_within_the_limits() -> None:
    assert missed(polls_report()) == []


def test_several_brokers_may_take_half_as_much_again() -> None:
    report = polls_report()
    report["polls"]["idle_cpu"]["broker-2"] = {"cpu_percent": 0.0, "rss_mib": 200.0}
    assert missed(report) == ["memory, all"]
    assert Outcome("polls", {}, polls.figures(report, brokers=2)).missed == []


def test_each_broker_has_a_name_a_port_and_files_of_its_own(tmp_path: Path) -> None:
    tools = Tools(Path("popmq"), Path("popmq"), Path("loadgen"), Path("anchor"), None)
    made = Services(tools, tmp_path, "http2", {}, brokers=4)
    commands = {name: port for name, port, words in made.commands() if words == ["broker"]}
    own = [made.own(name) for name in commands]
    assert own[0] == {}
    places = [{**popmq_environment({}, "sync", tmp_path, made.ports), **one} for one in own]
    assert [int(one["POPMQ_BROKER_PORT"]) for one in places] == list(commands.values())
    for key in ("PORT", "DATA_DIR"):
        assert len({one[f"POPMQ_BROKER_{key}"] for one in places}) == 4
    assert len({one.get("POPMQ_BROKER_NAME", "broker-a") for one in places}) == 4


def test_a_poll_that_is_not_parked_or_ends_early_is_a_miss() -> None:
    assert missed(polls_report(parked=9_999)) == ["polls parked"]
    assert missed(polls_report(early_empty=1)) == ["empty answers that came early"]


def test_memory_and_cpu_are_those_of_all_server_processes() -> None:
    idle = {
        "broker": {"cpu_percent": 6.0, "rss_mib": 201.0},
        "proxy": {"cpu_percent": 4.0, "rss_mib": 200.0},
    }
    assert missed(polls_report(idle_cpu=idle)) == ["idle CPU, all", "memory, all"]


def test_a_slow_wake_up_is_a_miss() -> None:
    report = polls_report()
    report["end_to_end"]["p99_ms"] = 50.0
    assert missed(report) == ["wake-up p99"]


def test_polls_last_longer_than_the_run() -> None:
    chosen = options("polls", "--warmup", "10", "--idle", "20", "--seconds", "30")
    flags = polls.arguments(chosen)
    assert flags[flags.index("-poll") + 1] == "120s"
    assert polls.variables(chosen)["POPMQ_PROXY_POLL_MS_MAX"] == "120000"


def test_room_for_many() -> None:
    assert polls.variables(options("polls", "--polls", "200000")) == {
        "POPMQ_PROXY_POLL_MS_MAX": "140000",
        "POPMQ_PROXY_RPCS_MAX": "400000",
        "POPMQ_BROKER_WAITING_POLLS_MAX": "200000",
    }
    many = topics.variables(options("topics", "--topics", "30000"))
    assert many == {
        "POPMQ_BROKER_TOPICS_MAX": "50600",
        "POPMQ_BROKER_GROUPS_MAX": "50600",
    }


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (topics.Made(29.0, 30.9, 9.9), []),
        (topics.Made(25.0, 33.0, 9.9), ["groups, second half ÷ first"]),
        (topics.Made(30.0, 30.1, 1.0), ["making 20,000 groups"]),
        (topics.Made(20.0, 20.0, 10.1), ["groups, slowest of 300 at once"]),
    ],
)
def test_topics_and_groups_are_made_in_proportion(made: topics.Made, wrong: list[str]) -> None:
    assert Outcome("topics", {}, topics.many_figures("groups", 20_000, made)).missed == wrong


def test_the_windows_of_the_backlog_fit_into_it() -> None:
    plan = backlog.plan(5_000_000, 50_000)
    taken = 2 * plan.window + backlog.STEPS * plan.step
    runs = backlog.STEPS + 2
    assert taken + runs * backlog.OVERSHOOT <= plan.large
    assert taken > 0.99 * plan.large
    assert plan.small >= plan.window + backlog.OVERSHOOT


def test_a_backlog_too_small_for_its_windows_says_how_large_it_must_be() -> None:
    with pytest.raises(BenchFailure, match="at least 106154"):
        backlog.plan(106_153, 50_000)
    assert backlog.plan(106_154, 50_000).step == 1


def backlog_missed(head_us: float, deep_us: float, last_mib: float) -> list[str]:
    base, head, deep = (Figures(1000.0, us, {}, 0.0, None) for us in (100.0, head_us, deep_us))
    samples = [Sample(0.0, Memory(100.0, 500.0)), Sample(1.0, Memory(last_mib, 900.0))]
    return Outcome("backlog", {}, backlog.figures(base, head, deep, samples)).missed


def test_the_backlog_is_judged_by_cpu_and_by_anonymous_memory() -> None:
    assert backlog_missed(129.0, 129.0, 109.0) == []
    assert backlog_missed(131.0, 100.0, 100.0) == ["CPU, head ÷ small backlog"]
    assert backlog_missed(100.0, 131.0, 100.0) == ["CPU, deep ÷ small backlog"]
    assert backlog_missed(100.0, 100.0, 111.0) == ["memory (anonymous), end ÷ begin"]


def test_an_outcome_as_text_and_as_a_document() -> None:
    told = Outcome(
        "polls",
        {"polls": 3},
        [Figure("plain", 1234.0, "s"), Figure("fine", 1.0, "ms", below=2.0)],
    )
    assert told.text().splitlines() == [
        "polls: polls 3",
        "  plain  1,230 s",
        "  fine    1.00 ms  < 2  ok",
        "every limit is kept",
    ]
    bad = Outcome("x", {}, [Figure("a", 3.0, "", below=2.0), Figure("b", 0, "", exactly=1)])
    assert bad.text().splitlines()[-1] == "MISSED: a, b"
    assert [figure["holds"] for figure in bad.document()["figures"]] == [False, False]
    assert MISSED == 1
    assert Outcome("x", {}, [Figure("a", 3.0, "s")]).text().endswith("no limits are set")


def test_a_page_gets_what_was_found_between_its_marks() -> None:
    found = Outcome("x", {"rate": 3}, [Figure("a", 3.0, "s")])
    page = "before\n<!-- x: begin -->\nolder\n<!-- x: end -->\nafter\n"
    made = put(page, found)
    assert made.splitlines()[:4] == ["before", "<!-- x: begin -->", "```", "x: rate 3"]
    assert made.splitlines()[-3:] == ["```", "<!-- x: end -->", "after"]
    assert "older" not in made
    assert put(made, found) == made
    with pytest.raises(ValueError, match="unpack"):
        put("no marks\n", found)


def test_the_services_find_each_other_on_their_ports() -> None:
    ports = free_ports()
    assert len({ports.nameserver, ports.broker, ports.proxy}) == 3
    found = popmq_environment({}, "sync", Path("d"), ports)
    assert found["POPMQ_PROXY_NAMESERVERS"] == f"127.0.0.1:{found['POPMQ_NAMESERVER_PORT']}"
    assert found["POPMQ_BROKER_NAMESERVERS"] == found["POPMQ_PROXY_NAMESERVERS"]
    assert found["POPMQ_BROKER_PORT"] == str(ports.broker)


def test_a_program_that_is_missing_is_named_with_its_cure(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.touch()
    with pytest.raises(BenchFailure, match="make setup"):
        tools_of(options("polls", "--popmq", str(tmp_path / "none")))
    words = ["--popmq", str(program), "--loadgen", str(tmp_path / "none")]
    with pytest.raises(BenchFailure, match="make bench/loadgen/loadgen"):
        tools_of(options("polls", *words))


def exported(rows: int) -> export.Exported:
    return export.Exported(rows, seconds=100.0, size_bytes=1 << 20)


def test_windows_with_an_export_are_held_against_those_without() -> None:
    windows = export.Windows(without=[2.0, 9.0, 2.0], during=[2.9, 2.8, 30.0])
    found = Outcome("export", {}, export.figures(windows, [exported(5_000_000)]))
    assert found.missed == []
    windows.during[:] = [3.1, 3.1]
    assert Outcome("export", {}, export.figures(windows, [exported(1)])).missed == [
        "p99, during ÷ without"
    ]


def test_exports_that_are_shorter_than_a_window_measure_nothing() -> None:
    with pytest.raises(BenchFailure, match="more --messages"):
        export.figures(export.Windows([1.0], []), [exported(1)])
