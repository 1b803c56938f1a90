"""When the audit runs: on time, once at a time, and once for all that was missed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from popmq_pipelines.report.schedule import OVERLAPS, NextRun, began_s, next_run, run_all


@pytest.mark.parametrize(
    ("now_s", "last_s", "expected"),
    [
        (1_000.0, None, NextRun(0, 0)),
        (1_000.0, 990.0, NextRun(200.0, 0)),  # it ran in this interval
        (1_200.0, 990.0, NextRun(0, 0)),
        (1_199.5, 990.0, NextRun(0.5, 0)),
        (4_000.0, 990.0, NextRun(0, 4)),  # due at 1200, 1800, 2400, 3000, 3600
        (1_000.0, 5_000.0, NextRun(0, 0)),  # the clock was set back
    ],
)
def test_turns(now_s: float, last_s: float | None, expected: NextRun) -> None:
    assert next_run(now_s, last_s, 600.0) == expected


class Enough(Exception):
    """The test has seen what it wanted."""


def test_runs_of_an_afternoon(tmp_path: Path) -> None:
    """A virtual clock: the second run takes 25 minutes, so the third comes at once, for two."""
    state = tmp_path / "state"
    clock = [1_000.0]
    began: list[float] = []

    def run(_command: object) -> int:
        if len(began) == 4:
            raise Enough
        began.append(clock[0])
        clock[0] += 1_500 if len(began) == 2 else 20
        return 0

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 30
        clock[0] += seconds

    with pytest.raises(Enough):
        run_all(["audit"], state, 600.0, clock=lambda: clock[0], sleep=sleep, run=run)
    assert began == [1_000.0, 1_200.0, 2_700.0, 3_000.0]
    assert began_s(state) == 3_600.0  # the one that was not made


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("1000.000\n")
    assert began_s(tmp_path / "state") == 1_000.0
    (tmp_path / "state").write_text("junk")
    assert began_s(tmp_path / "state") is None


def schedule(state: Path, command: list[str], *options: str) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "popmq_pipelines", "schedule", "--state", str(state)]
    words += [*options, "--"]
    return subprocess.Popen(
        [*words, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_two_never_run_at_once_and_a_signal_ends_both_the_run_and_the_schedule(
    tmp_path: Path,
) -> None:
    state, mark = tmp_path / "state", tmp_path / "pid"
    code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with schedule(state, [sys.executable, "-c", code]) as first:
        try:
            while not (mark.exists() and mark.read_text()):
                assert first.poll() is None
                time.sleep(0.05)
            with schedule(state, ["true"]) as second:
                told, _ = second.communicate()
            assert (second.returncode, "held by another schedule" in told) == (OVERLAPS, True)
            first.send_signal(signal.SIGTERM)
            assert first.wait() == 0
        finally:
            first.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_figures_are_there_as_long_as_the_schedule_is(tmp_path: Path) -> None:
    """And what it runs knows how often it is run."""
    figures, mark = tmp_path / "schedule.prom", tmp_path / "every"
    code = f"import os; open({str(mark)!r}, 'w').write(os.environ['POPMQ_AUDIT_EVERY_S']); exit(4)"
    options = ["--every-s", "86400", "--prometheus", str(figures)]
    with schedule(tmp_path / "state", [sys.executable, "-c", code], *options) as running:
        try:
            while not (figures.exists() and "popmq_audit_exit_code{} 4" in figures.read_text()):
                assert running.poll() is None
                time.sleep(0.05)
            assert "popmq_audit_every_seconds{} 86400" in figures.read_text()
            assert mark.read_text() == "86400"
            running.send_signal(signal.SIGTERM)
            assert running.wait() == 0
        finally:
            running.kill()
    assert not figures.exists()
