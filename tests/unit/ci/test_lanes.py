"""CI's lanes: order, whole outputs, one failure ends it, and an interrupt stops everything."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
LANES = ROOT / ".ci" / "lanes.py"

CHECKS = {
    "make quickstart",
    "make check",
    "make test",
    "make it",
    "make crash",
    "make compat-python",
    "make compiled",
    ".ci/install-packages postgresql mariadb-server redis-server && make idempotence-stores",
    ".ci/install-packages etcd-server && make register",
    ".ci/install-packages chromium && make console-browser",
    "make sim",
    "make faults",
    "make crash-sim",
    "make settings-histories",
    "make bitflip",
    "make monitoring",
    "make h2spec",
    "make compat",
    "make pipelines",
    "make audit",
    "make pipelines-brokers",
    "make bytecodes",
    "make hostile",
}

Plan = Sequence[tuple[str, float, str]]
"""Command, seconds, what it uses."""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    return tmp_path


def written(folder: Path, alone: Sequence[str], beside: Plan) -> Path:
    stages = [f"[[alone]]\nrun = '''{run}'''\n" for run in alone]
    for run, seconds, use in beside:
        stages.append(f"[[beside]]\nrun = '''{run}'''\nseconds = {seconds}\nuse = '{use}'\n")
    path = folder / "stages.toml"
    path.write_text("\n".join(stages))
    return path


def begun(stages: Path, heartbeat_s: float = 60) -> "subprocess.Popen[str]":
    command = [sys.executable, str(LANES), str(stages), "--heartbeat", str(heartbeat_s)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=stages.parent, start_new_session=True
    )


def ran(stages: Path, heartbeat_s: float = 60) -> tuple[int, list[str]]:
    process = begun(stages, heartbeat_s)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output.splitlines()


def stages_of(name: str) -> list[dict[str, Any]]:
    plan = tomllib.loads((ROOT / ".ci" / f"{name}.toml").read_text())
    return [
        stage for kind in ("first", "alone", "behind", "beside") for stage in plan.get(kind, [])
    ]


def test_ci_drops_no_check() -> None:
    each, night = ([stage["run"] for stage in stages_of(name)] for name in ("stages", "nightly"))
    runs = [*each, *night]
    assert set(each) & set(night) == {"make setup"}
    assert len(runs) == len(set(runs)) + 1
    for check in CHECKS:
        assert any(run == check or run.startswith(f"{check} ") for run in runs), check
    seeded = ("sim", "crash-sim", "settings-histories", "bitflip")
    assert all("SEED=" in run for run in runs if run.split()[1] in seeded)


def test_those_beside_come_first_the_longest_before_the_others(folder: Path) -> None:
    beside = [("echo short", 1, ""), ("echo long; sleep 0.3", 9, "")]
    code, lines = ran(written(folder, ["echo one", "echo two"], beside))
    assert code == 0
    heads = [line for line in lines if line.startswith("===")]
    assert set(heads[:2]) == {"=== echo long; sleep 0.3", "=== echo short"}
    assert heads[2:] == ["=== echo one", "=== echo two"]
    times = [line.split("CPU  ")[1] for line in lines[-5:]]
    assert times[2:] == ["echo one", "echo two", "in all"]


def test_one_behind_runs_with_the_lowest_priority_while_another_is_alone(folder: Path) -> None:
    """The one alone waits for it; a second one waits until the first has ended."""
    plan = folder / "stages.toml"
    stages = {
        "first": ["[ ! -e nice ]"],
        "alone": ["until [ -e nice-2 ]; do sleep 0.05; done; nice > alone"],
        "behind": ["nice > nice-1; sleep 0.3; mv nice-1 nice", "mv nice nice-2"],
    }
    lines = [f"[[{kind}]]\nrun = '{run}'\n" for kind, runs in stages.items() for run in runs]
    plan.write_text("".join(lines))
    assert ran(plan)[0] == 0
    assert (folder / "nice-2").read_text() == "19\n"
    assert (folder / "alone").read_text() == "0\n"


def test_behind_the_first_runs_only_what_needs_nothing_of_them(folder: Path) -> None:
    (folder / "stages.toml").write_text(
        "[[first]]\nrun = 'until [ -e early ]; do sleep 0.05; done; [ ! -e late ]'\n"
        "[[alone]]\nrun = 'until [ -e late ]; do sleep 0.05; done'\n"
        "[[behind]]\nrun = 'touch late'\nseconds = 9\n"
        "[[behind]]\nrun = 'touch early'\nseconds = 1\nat_once = true\n"
    )
    assert ran(folder / "stages.toml")[0] == 0


def test_two_run_at_a_time_and_what_they_print_stays_together(folder: Path) -> None:
    """Each waits until the other has begun."""
    meet = "touch {0}; echo {0} begins; until [ -e {1} ]; do sleep 0.05; done; echo {0} ends"
    beside = [(meet.format("a", "b"), 2, ""), (meet.format("b", "a"), 1, "")]
    code, lines = ran(written(folder, [], beside))
    assert code == 0
    for name in ("a", "b"):
        place = lines.index(f"{name} begins")
        assert lines[place + 1] == f"{name} ends"
        assert lines[place - 1].startswith("=== touch")


def test_stages_that_use_the_same_run_one_after_the_other(folder: Path) -> None:
    locked = "mkdir lock && sleep 0.3 && rmdir lock"
    code, _ = ran(written(folder, [], [(locked, 2, "a lock"), (f"{locked} ", 1, "a lock")]))
    assert code == 0


def test_a_line_says_what_runs(folder: Path) -> None:
    _, lines = ran(written(folder, [], [("sleep 1; echo done", 1, "")]), heartbeat_s=0.2)
    assert any(line.startswith("... sleep 1; echo done (") for line in lines)


def test_one_that_fails_ends_the_run_and_prints_last(folder: Path) -> None:
    beside = [("echo slow; sleep 60", 9, ""), ("echo why; exit 3", 5, ""), ("touch late", 1, "")]
    began = time.monotonic()
    code, lines = ran(written(folder, [], beside))
    assert code == 1
    assert time.monotonic() - began < 30
    assert lines[0:2] == ["=== echo why; exit 3", "why"]
    assert any("FAILED (3): echo why; exit 3" in line for line in lines[2:])
    assert any("stopped: echo slow; sleep 60" in line for line in lines[2:])
    assert not (folder / "late").exists()


def test_one_alone_that_fails_ends_the_run(folder: Path) -> None:
    code, lines = ran(written(folder, ["false", "touch late"], []))
    assert code == 1
    assert not (folder / "late").exists()
    assert any("FAILED (1): false" in line for line in lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_everything(folder: Path, number: signal.Signals) -> None:
    """The grandchildren too: a stage's server."""
    beside = [(f"sleep 60 & echo $! > {name}; wait; true", 1, "") for name in ("a", "b")]
    process = begun(written(folder, [], beside))
    pids = [int(_when_written(folder / name)) for name in ("a", "b")]
    process.send_signal(number)
    process.communicate(timeout=50)
    assert process.returncode == 130
    for pid in pids:
        _when_gone(pid)


TESTS = """
import os
import pathlib
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_once(number):
    pathlib.Path(f"ran-{{number}}").open("a").write("x")
    pathlib.Path("workers").write_text(os.environ.get("WORKERS", "many"))
    assert number >= {failing} or pathlib.Path(f"ran-{{number}}").read_text() == "x" * {passes_at}
"""


def with_tests(folder: Path, failing: int, passes_at: int, again: bool = True) -> Path:
    """A stage of seven tests. The first `failing` of them pass at their try `passes_at`."""
    text = TESTS.format(tests=7, failing=failing, passes_at=passes_at)
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plan = folder / "stages.toml"
    run = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q test_it.py"
    plan.write_text(f"[[beside]]\nrun = '{run}'\nagain = {str(again).lower()}\n")
    return plan


def tries(folder: Path) -> list[int]:
    return [len((folder / f"ran-{number}").read_text()) for number in range(7)]


def test_few_tests_that_fail_run_again_and_are_named(folder: Path) -> None:
    code, lines = ran(with_tests(folder, failing=2, passes_at=2))
    assert code == 0
    assert tries(folder) == [2, 2, 1, 1, 1, 1, 1]
    assert (folder / "workers").read_text() == "1"  # one after the other
    named = [line.split() for line in lines if "FLAKY" in line]
    assert named == [["FLAKY:", f"test_it.py::test_once[{number}]"] for number in (0, 1)]


def test_a_test_that_fails_twice_fails_the_run(folder: Path) -> None:
    code, lines = ran(with_tests(folder, failing=1, passes_at=3))
    assert code == 1
    assert tries(folder) == [2, 1, 1, 1, 1, 1, 1]
    assert not any("FLAKY" in line for line in lines)


def test_many_that_fail_have_no_second_try(folder: Path) -> None:
    code, _ = ran(with_tests(folder, failing=6, passes_at=2))
    assert code == 1
    assert tries(folder) == [1] * 7


def test_only_some_stages_have_a_second_try(folder: Path) -> None:
    code, _ = ran(with_tests(folder, failing=1, passes_at=2, again=False))
    assert code == 1
    stages = [*stages_of("stages"), *stages_of("nightly")]
    again = {stage["run"] for stage in stages if stage.get("again")}
    waiting = {"make it", "make hostile", "make compat", "make compat-python"}
    thorough = {"make test PROFILE=thorough WORKERS=1", "make compiled PROFILE=thorough"}
    assert again == {"make test", "make compiled OPTIMIZE=0", *thorough, *waiting}


def _when_written(path: Path) -> str:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def _when_gone(pid: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} lives")
