"""Runs stages: the first, then some side by side, then those that measure time one by one.

    python3 .ci/lanes.py .ci/stages.toml [--lanes 2] [--heartbeat 30]

While a stage runs `alone`, one of those `behind` takes the CPU time that it leaves, with the lowest
priority; `behind` belongs what computes and waits for no clock. Those `at_once` begin behind the
first ones: they need nothing that these make.

The first ones print as they go. What another stage prints is kept until it ends and comes in one
piece; now and then a line says what is running. The first stage that fails ends the run: its
output is the last, what still runs is stopped, the exit code is 1. Ctrl-C stops all, with 130.

A stage of pytest with `again` may have up to five tests that fail once: these alone run a second
time, one after the other, and the end names them as FLAKY. It is for tests that wait for real
processes on a machine whose noise is not theirs; campaigns and simulations have no second try.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

LOOK_S = 0.1
"""Between two looks at the processes that run: any may end, and an interrupt may come."""
ONE_BY_ONE = {"WORKERS": "1"}
"""For make: tests that disturbed each other do not in their second try."""
STOP_S = 20.0
"""How long a stage that is interrupted has to clean up, before it is killed."""
FEW = 5
"""So many tests of a stage may fail once."""
BEHIND = ("nice", "-n", "19")
"""Linux gives it a sixtieth of what others get who want the CPU."""


@dataclass(frozen=True)
class Stage:
    run: str
    """A command of bash."""
    seconds: float = 0
    """How long it takes, about. The longest begin first."""
    use: str = ""
    """What it shares with others: one of them runs at a time."""
    again: bool = False
    """Its tests that fail run a second time, if they are few."""
    at_once: bool = False
    """It needs nothing that the first ones make."""


def next_stage(waiting: Iterable[Stage], running: Iterable[Stage]) -> Stage | None:
    """The longest that shares nothing with those that run."""
    used = {stage.use for stage in running} - {""}
    free = [stage for stage in waiting if stage.use not in used]
    return max(free, key=lambda stage: stage.seconds, default=None)


def tests_that_failed(cache: Path) -> list[str]:
    """What pytest kept of its last run. A run that broke off keeps nothing or too much."""
    kept = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


@dataclass
class Running:
    stage: Stage
    output: IO[bytes] | None
    cache: Path
    """Where its pytest keeps what failed."""
    flaky: tuple[str, ...] = ()
    """The tests of a second try."""
    behind: bool = False
    process: "subprocess.Popen[bytes]" = field(init=False)
    began: float = field(default_factory=time.monotonic)
    cpu_s: float = 0
    """Of the stage and of all its children that it waited for. Known once it ended."""

    def __post_init__(self) -> None:
        """In a process group of its own, so that all of it can be stopped."""
        self.process = subprocess.Popen(
            [*(BEHIND if self.behind else ()), "bash", "-c", self.stage.run],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT if self.output else None,
            start_new_session=True,
            env=os.environ | self._more_env(),
        )

    def _more_env(self) -> dict[str, str]:
        return {"PYTEST_ADDOPTS": self._options(), **(ONE_BY_ONE if self.flaky else {})}

    def _options(self) -> str:
        options = [os.environ.get("PYTEST_ADDOPTS", ""), f"-o cache_dir={self.cache}"]
        if self.flaky:
            options.append("--last-failed --last-failed-no-failures none")
        return " ".join(options).strip()

    def second_try(self) -> "Running | None":
        """Not where so much fails that it is no chance, and not twice."""
        failed = tests_that_failed(self.cache) if self.stage.again and not self.flaky else []
        if not 0 < len(failed) <= FEW:
            return None
        return Running(self.stage, self.output, self.cache, tuple(failed), self.behind)

    def poll(self) -> int | None:
        """As Popen's, which does not tell the CPU time."""
        if self.process.returncode is None:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = used.ru_utime + used.ru_stime
        return self.process.returncode

    @property
    def took_s(self) -> float:
        return time.monotonic() - self.began

    @property
    def times(self) -> str:
        return times(self.took_s, self.cpu_s)

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Failed(Exception):
    """A stage did not end with 0."""


class Run:
    def __init__(self, heartbeat_s: float, caches: Path) -> None:
        self.took: list[str] = []
        self.interrupted = False
        """Looked at between steps: an exception from a signal could hit between a stage's start and
        its place in the list, and would leave it running."""
        self._heartbeat_s = heartbeat_s
        self._caches = caches
        self._begun = 0
        self._beat_s = time.monotonic()
        self._running: list[Running] = []

    def first(self, stages: Iterable[Stage], behind: list[Stage]) -> None:
        for stage in stages:
            say(f"=== {stage.run}")
            self._run(stage, None, behind)

    def alone(self, stages: Iterable[Stage], behind: list[Stage]) -> None:
        for stage in stages:
            self._run(stage, _kept(), behind)

    def _run(self, stage: Stage, output: IO[bytes] | None, behind: list[Stage]) -> None:
        """Until it ends. Those that begin in the meantime are taken from `behind`."""
        self._begin(stage, output)
        while any(one.stage is stage for one in self._running):
            if not any(one.behind for one in self._running):
                self._begin_next(behind, behind=True)
            self._pause()

    def beside(self, stages: Sequence[Stage], lanes: int) -> None:
        waiting = list(stages)
        while waiting:
            self._until(lanes - 1)
            if not self._begin_next(waiting):
                self._pause()
        self._until(0)

    def _until(self, running_max: int) -> None:
        while len(self._running) > running_max:
            self._pause()

    def _pause(self) -> None:
        time.sleep(LOOK_S)
        self._look()
        if time.monotonic() - self._beat_s >= self._heartbeat_s and self._running:
            self._beat_s = time.monotonic()
            running = (f"{one.stage.run} ({one.took_s:.0f} s)" for one in self._running)
            say(f"... {', '.join(running)}")

    def _begin_next(self, waiting: list[Stage], behind: bool = False) -> bool:
        stage = next_stage(waiting, [one.stage for one in self._running])
        if stage is not None:
            waiting.remove(stage)
            self._begin(stage, _kept(), behind)
        return stage is not None

    def _begin(self, stage: Stage, output: IO[bytes] | None, behind: bool = False) -> None:
        self._begun += 1
        cache = self._caches / str(self._begun)
        self._running.append(Running(stage, output, cache, behind=behind))

    def _look(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        for one in list(self._running):
            if one.poll() is not None:
                self._running.remove(one)
                self._end(one)

    def _end(self, one: Running) -> None:
        """A stage that fails is the last one to print."""
        code = one.process.returncode
        if code and (second := one.second_try()):
            self._running.append(second)
            self.took.append(
                f"{one.times}  a second try for {len(second.flaky)} tests: {one.stage.run}"
            )
            return
        if code:
            self.stop()
        failed = f"FAILED ({code}): " if code else ""
        self.took.append(f"{one.times}  {failed}{one.stage.run}")
        self.took.extend(f"{'FLAKY:':>21} {name}" for name in one.flaky if not code)
        if one.output:
            say(f"=== {one.stage.run}")
            _copy(one.output)
        if code:
            raise Failed(one.stage.run)

    def stop(self) -> None:
        for number, wait_s in ((signal.SIGINT, STOP_S), (signal.SIGKILL, STOP_S)):
            end = time.monotonic() + wait_s
            for one in self._running:
                one.signal(number)
            while time.monotonic() < end and any(r.poll() is None for r in self._running):
                time.sleep(LOOK_S)
        for one in self._running:
            self.took.append(f"{one.times}  stopped: {one.stage.run}")
            if one.output:
                one.output.close()
        self._running.clear()


def _kept() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _copy(output: IO[bytes]) -> None:
    with output:
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
    sys.stdout.flush()


def times(took_s: float, cpu_s: float) -> str:
    return f"{took_s:5.0f} s {cpu_s:5.0f} s CPU"


def say(line: str) -> None:
    print(line, flush=True)


def heed_interrupts(run: Run) -> None:
    """SIGTERM is as Ctrl-C, and both are heeded, also where a shell began this in the background,
    which ignores SIGINT: stages would ignore it, too."""

    def interrupt(*_: Any) -> None:
        run.interrupted = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run stages alone and in lanes.")
    parser.add_argument("stages", type=Path)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--heartbeat", type=float, default=30, help="seconds")
    given = parser.parse_args()
    plan = tomllib.loads(given.stages.read_text())
    kinds = ("first", "alone", "behind", "beside")
    stages = {kind: [Stage(**stage) for stage in plan.get(kind, [])] for kind in kinds}
    with tempfile.TemporaryDirectory() as caches:
        run, began = Run(given.heartbeat, Path(caches)), time.monotonic()
        heed_interrupts(run)
        try:
            at_once = [one for one in stages["behind"] if one.at_once]
            run.first(stages["first"], at_once)
            behind = [*at_once, *(one for one in stages["behind"] if not one.at_once)]
            run.beside(stages["beside"], given.lanes)
            run.alone(stages["alone"], behind)
            run.beside(behind, given.lanes)
            code = 0
        except Failed:
            code = 1
        except KeyboardInterrupt:
            run.stop()
            code = 130
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    in_all = times(time.monotonic() - began, used.ru_utime + used.ru_stime)
    say("\n".join([*run.took, f"{in_all}  in all"]))
    return code


if __name__ == "__main__":
    sys.exit(main())
