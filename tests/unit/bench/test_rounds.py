"""Does each system run alone in its turn, and is all stopped at the end, whatever happens?"""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from unit.bench.made import report

from compare import load, rounds
from compare.failure import BenchFailure
from compare.progress import Progress
from compare.record import Record
from compare.rounds import Bench, Plan
from compare.servers import ROCKETMQ_PORTS, Server, Tools
from compare.systems import Case
from compare.workloads import Length, chosen

TOOLS = Tools(Path("popmq"), Path("compiled"), Path("loadgen"), Path("anchor.sh"), None)
SYSTEMS = ("popmq", "rocketmq", "popmq-compiled")


class Played(Server):
    """One of `all`; it only writes down what it is told."""

    all: ClassVar[list["Played"]] = []

    def __init__(self, case: Case, folder: Path) -> None:
        super().__init__(TOOLS, case.flush, folder, ROCKETMQ_PORTS)
        self.system, self.runs, self.paused = case.system, False, False
        Played.all.append(self)

    def start(self) -> None:
        self.runs = True

    def stop(self) -> None:
        assert not self.paused, "a process that is paused takes no SIGTERM"
        self.runs = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def roots(self) -> dict[str, int]:
        return {}

    def make(self, topics_count: int, group_indexes: Any) -> None: ...


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was loaded; the broken one cannot be."""
    seen: list[str] = []

    def loaded(server: Played, flags: list[str], timeout_s: float) -> dict[str, Any]:
        running = [one for one in Played.all if one.runs and not one.paused]
        assert running == [server]
        seen.append(server.system)
        return report()

    monkeypatch.setattr(Played, "all", [])
    monkeypatch.setattr(rounds, "BREATH_S", 0.0)
    monkeypatch.setattr(rounds, "check_free", lambda ports: None)
    monkeypatch.setattr(
        rounds, "server_for", lambda case, tools, folder, place: Played(case, folder)
    )
    monkeypatch.setattr(load, "run", loaded)
    monkeypatch.setattr(load, "confirms", lambda server, flags, timeout_s: True)
    return seen


def bench(tmp_path: Path, rounds: int = 2, turns: int = 1) -> Bench:
    cases = [Case(system, "sync") for system in SYSTEMS]
    warmup_s = {True: 2.0, False: 1.0}
    rows = chosen(["send-1", "send-16"])
    plan = Plan(cases, rows, rounds, Length(1.0, 1.0, 1), warmup_s, turns)
    return Bench(plan, TOOLS, tmp_path, Record("now"), lambda: None, Progress(plan.estimate_s()))


def test_each_runs_alone_and_another_one_begins_each_time(tmp_path: Path, turns: list[str]) -> None:
    it = bench(tmp_path)
    it.run()
    warm = [system for system in SYSTEMS for _ in range(2)]
    first, second = turns[:12], turns[12:]
    assert first[:6] == second[:6] == warm
    rows = [first[6:9], first[9:], second[6:9], second[9:]]
    assert all(sorted(row) == sorted(SYSTEMS) for row in rows)
    assert {row[0] for row in rows} == set(SYSTEMS)
    assert not any(server.runs for server in Played.all)
    assert not list(tmp_path.iterdir())
    assert len(it.record.rows) == 12


def test_turns_follow_each_other_after_one_start(tmp_path: Path, turns: list[str]) -> None:
    it = bench(tmp_path, rounds=1, turns=3)
    it.run()
    first_row = turns[6:15]
    assert {first_row[place] for place in (0, 3, 6)} == set(SYSTEMS)
    found = [(run.round, run.row) for run in it.record.rows if run.system == SYSTEMS[0]]
    assert found == [(turn, row) for row in ("send-1", "send-16") for turn in (1, 2, 3)]
    assert len(it.record.starts) == len(SYSTEMS)


def test_one_that_does_not_start_is_left_out(
    tmp_path: Path, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(server: Played) -> None:
        if server.system == "rocketmq":
            raise BenchFailure("no jars")
        server.runs = True

    monkeypatch.setattr(Played, "start", start)
    it = bench(tmp_path)
    it.run()
    assert "rocketmq" not in turns
    failed = [run for run in it.record.rows if run.error]
    assert [(run.system, run.row) for run in failed] == [("rocketmq", "start")] * 2


def test_all_is_stopped_when_it_is_interrupted(
    tmp_path: Path, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(server: Server, flags: list[str], timeout_s: float) -> None:
        if server.processes() == {} and len(Played.all) == len(SYSTEMS):
            raise KeyboardInterrupt

    monkeypatch.setattr(load, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench(tmp_path).run()
    assert not any(server.runs for server in Played.all)
