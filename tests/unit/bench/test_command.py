"""Options, plan, results file, progress."""

from pathlib import Path

import pytest
from unit.bench.made import record

from compare import processes
from compare.command import cases_of, main, parser, plan_of
from compare.failure import BenchFailure
from compare.prerequisites import missing
from compare.progress import Progress, spoken
from compare.record import load, save
from compare.servers import Tools, popmq_environment, popmq_ports
from compare.systems import FULL_CASES, Case


def cases(*words: str) -> list[Case]:
    return cases_of(parser().parse_args(words))


CLUSTER = ("popmq", "rocketmq", "popmq-compiled")


def test_the_default_is_the_cluster_in_sync_flush() -> None:
    assert cases() == [Case(system, "sync") for system in CLUSTER]
    assert cases("--full") == list(FULL_CASES)


def test_systems_and_flush_are_chosen() -> None:
    assert cases("--flush", "async") == [Case(system, "async") for system in CLUSTER]
    assert cases("--systems", "popmq-standalone rocketmq-local", "--flush", "sync,async") == [
        Case(system, flush)
        for flush in ("sync", "async")
        for system in ("popmq-standalone", "rocketmq-local")
    ]
    with pytest.raises(BenchFailure, match="kafka"):
        cases("--systems", "kafka")


def test_what_is_compared_runs_together() -> None:
    plan = plan_of(parser().parse_args(["--rounds", "2", "--rows", "send-16"]))
    assert [[case.system for case in group] for group in plan.groups()] == [list(CLUSTER)]
    assert plan.estimate_s() > 2 * (60 + 5 + 2 * 25)


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    made = record({"popmq": [1.0], "rocketmq": [2.0]})
    save(made, tmp_path / "new" / "results.json")
    assert load(tmp_path / "new" / "results.json") == made


def test_a_report_is_made_from_a_file_and_the_check_fails(tmp_path: Path) -> None:
    made = record({"popmq": [1000.0], "rocketmq": [1000.0]})
    save(made, tmp_path / "results.json")
    words = ["--report-only", str(tmp_path / "results.json"), "--no-plot"]
    words += ["--table", str(tmp_path / "table.md")]
    assert main(words) == 0
    assert "1,000" in (tmp_path / "table.md").read_text()
    assert main([*words, "--check"]) == 1
    assert main(["--report-only", str(tmp_path / "none.json")]) == 2


def test_what_is_missing_is_told_with_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANCHOR_LIB", raising=False)
    popmq, compiled = tmp_path / "popmq", tmp_path / "compiled"
    tools = Tools(popmq, compiled, tmp_path / "loadgen", tmp_path / "anchor.sh", "0,1")
    told = "\n".join(missing(tools, ["popmq-compiled", "rocketmq"], plot=False))
    for part in (
        "make setup",
        "make compiled",
        "go build",
        "go.dev",
        "taskset",
        "openjdk",
        "mvn -q",
        "maven",
    ):
        assert part in told
    less = "\n".join(missing(tools, ["popmq"], plot=False))
    assert "java" not in less
    assert "make compiled" not in less


def test_the_time_left_follows_what_was_seen() -> None:
    now = [0.0]
    progress = Progress(600.0, clock=lambda: now[0])
    assert progress.remaining_s() == 600.0
    now[0] = 540.0
    progress.done(240.0, "twice as slow as estimated")
    assert progress.remaining_s() == 360.0 * 2
    assert [spoken(seconds) for seconds in (5.0, 600.0, 7200.0)] == ["5 s", "10 min", "2.0 h"]


def test_servers_do_not_see_the_users_own_variables() -> None:
    made = popmq_environment(
        {"PATH": "p", "POPMQ_BROKER_REVIVE_QUEUES": "1"}, "async", Path("/data"), popmq_ports(1)
    )
    assert made["POPMQ_PROXY_PORT"] == "21012"
    assert made["PATH"] == "p"
    assert made["POPMQ_BROKER_FLUSH"] == "async"
    assert "POPMQ_BROKER_REVIVE_QUEUES" not in made


def test_a_family_is_everything_that_descends() -> None:
    assert processes.family(2, {2: 1, 3: 2, 4: 3, 5: 1, 6: 2}) == [2, 3, 6, 4]


def test_memory_is_summed_and_the_gone_count_nothing(tmp_path: Path) -> None:
    for pid, kib in ((7, 1024), (8, 2048)):
        (tmp_path / str(pid)).mkdir()
        text = f"Name:\tx\nVmRSS:\t{2 * kib} kB\nRssAnon:\t{kib} kB\n"
        (tmp_path / str(pid) / "status").write_text(text)
    assert processes.memory([7, 8, 9], proc=tmp_path) == processes.Memory(3.0, 6.0)


def test_a_pinned_command_names_its_cores() -> None:
    tools = Tools(Path("p"), Path("c"), Path("l"), Path("a"), "0,1")
    assert tools.pinned(["x"]) == ["taskset", "-c", "0,1", "x"]
