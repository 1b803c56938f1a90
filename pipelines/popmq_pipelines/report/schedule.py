"""Run a command again and again: never twice at once, never forgotten.

Runs are due at whole multiples of the interval since 1970, so that several machines and restarts
agree. A run that takes longer than the interval delays the next one; of the runs that were missed
then, or while nothing was running, one is made up for at once: an audit looks at everything since
the last one. The state file is locked as long as the schedule lives, and holds when the last run
began. What it runs finds the interval in POPMQ_AUDIT_EVERY_S.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from popmq_pipelines.report import gauges

OVERLAPS: Final = 75
"""Exit code (EX_TEMPFAIL): another schedule holds the state file."""
EVERY_S: Final = "POPMQ_AUDIT_EVERY_S"
"""The interval, for the command that is run."""
LOOK_EVERY_S: Final = 30.0
"""A clock that is set, or a machine that slept, is noticed by then."""


class NextRun(NamedTuple):
    """When to run: now (0), or in so many seconds; and how many runs were missed."""

    wait_s: float
    missed_count: int


def next_run(now_s: float, last_s: float | None, every_s: float) -> NextRun:
    """`last_s`: when the last run began; None: there was none, so the first is due."""
    if last_s is None or last_s > now_s:  # none, or the clock was set back since
        return NextRun(0, 0)
    due_count = int(now_s // every_s) - int(last_s // every_s)
    if due_count > 0:
        return NextRun(0, due_count - 1)
    return NextRun((now_s // every_s + 1) * every_s - now_s, 0)


class ScheduleStopped(Exception):
    """SIGTERM: the run that is under way is told, and ends the schedule."""


def forever(
    command: Sequence[str], state: Path, every_s: float, prometheus: Path | None = None
) -> int:
    """Until SIGTERM or SIGINT. Returns an exit code. `prometheus`: where figures are told of the
    schedule as long as it lives; one that was ended by force leaves them, and an alert misses its
    audits."""
    os.environ[EVERY_S] = f"{every_s:g}"
    state.parent.mkdir(parents=True, exist_ok=True)
    with open(state, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{state} is held by another schedule", file=sys.stderr)
            return OVERLAPS
        signal.signal(signal.SIGTERM, _stop)

        def tell(exit_code: int | None) -> None:
            if prometheus is not None:
                gauges.write(prometheus, gauges.schedule_text(every_s, exit_code))

        def run(command: Sequence[str]) -> int:
            code = _run(command)
            tell(code)
            return code

        tell(None)
        with suppress(ScheduleStopped, KeyboardInterrupt):
            run_all(command, state, every_s, clock=time.time, sleep=time.sleep, run=run)
        if prometheus is not None:
            prometheus.unlink(missing_ok=True)
    return 0


def run_all(
    command: Sequence[str],
    state: Path,
    every_s: float,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    run: Callable[[Sequence[str]], int],
) -> None:
    """Until something is raised."""
    while True:
        now_s = clock()
        next_turn = next_run(now_s, began_s(state), every_s)
        if next_turn.wait_s > 0:
            sleep(min(next_turn.wait_s, LOOK_EVERY_S))
            continue
        if next_turn.missed_count:
            print(f"{next_turn.missed_count} runs were missed; this one stands for them")
        state.write_text(f"{now_s:.3f}\n")
        code = run(command)
        print(f"exit code {code} after {clock() - now_s:.0f} s", flush=True)


def began_s(state: Path) -> float | None:
    """When the last run began, if it is known."""
    try:
        return float(state.read_text())
    except (OSError, ValueError):
        return None


def _run(command: Sequence[str]) -> int:
    with subprocess.Popen(command) as running:
        try:
            return running.wait()
        except ScheduleStopped:
            os.kill(running.pid, signal.SIGTERM)
            raise


def _stop(*_: object) -> None:
    raise ScheduleStopped
