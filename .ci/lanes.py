"""Runs stages: those that need the machine alone, then the others in lanes side by side.

    python3 .ci/lanes.py .ci/stages.toml [--lanes 2] [--heartbeat 30]

A stage alone prints as it goes. What a stage in a lane prints is kept until it ends and comes in
one piece; now and then a line says what is running. The first stage that fails ends the run: its
output is the last, what still runs is stopped, the exit code is 1. Ctrl-C stops all, with 130.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

LOOK_S = 0.1
STOP_S = 20.0
"""How long a stage that is interrupted has to clean up, before it is killed."""


@dataclass(frozen=True)
class Stage:
    run: str
    """A command of bash."""
    seconds: float = 0
    """How long it takes, about. The longest begin first."""
    use: str = ""
    """What it shares with others: one of them runs at a time."""


def next_stage(waiting: Iterable[Stage], running: Iterable[Stage]) -> Stage | None:
    """The longest that shares nothing with those that run."""
    used = {stage.use for stage in running} - {""}
    free = [stage for stage in waiting if stage.use not in used]
    return max(free, key=lambda stage: stage.seconds, default=None)


@dataclass
class Running:
    stage: Stage
    output: IO[bytes] | None
    process: "subprocess.Popen[bytes]" = field(init=False)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """In a process group of its own, so that all of it can be stopped."""
        self.process = subprocess.Popen(
            ["bash", "-c", self.stage.run],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT if self.output else None,
            start_new_session=True,
        )

    @property
    def took_s(self) -> float:
        return time.monotonic() - self.began

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Failed(Exception):
    """A stage did not end with 0."""


class Run:
    def __init__(self, heartbeat_s: float) -> None:
        self.took: list[str] = []
        self._heartbeat_s = heartbeat_s
        self._running: list[Running] = []

    def alone(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            say(f"=== {stage.run}")
            self._running.append(Running(stage, None))
            while self._running:
                time.sleep(LOOK_S)
                self._look()

    def beside(self, stages: Iterable[Stage], lanes: int) -> None:
        waiting, beat = list(stages), time.monotonic()
        while waiting or self._running:
            while len(self._running) < lanes and (stage := self._next(waiting)):
                waiting.remove(stage)
                output = tempfile.TemporaryFile()  # noqa: SIM115
                self._running.append(Running(stage, output))
            time.sleep(LOOK_S)
            self._look()
            if time.monotonic() - beat >= self._heartbeat_s and self._running:
                beat = time.monotonic()
                named = ", ".join(f"{one.stage.run} ({one.took_s:.0f} s)" for one in self._running)
                say(f"... {named}; {len(waiting)} more")

    def _next(self, waiting: list[Stage]) -> Stage | None:
        return next_stage(waiting, [one.stage for one in self._running])

    def _look(self) -> None:
        for one in list(self._running):
            if one.process.poll() is not None:
                self._running.remove(one)
                self._end(one)

    def _end(self, one: Running) -> None:
        """A stage that fails is the last one to print."""
        code = one.process.returncode
        if code:
            self.stop()
        failed = f"FAILED ({code}): " if code else ""
        self.took.append(f"{one.took_s:5.0f} s  {failed}{one.stage.run}")
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
            while time.monotonic() < end and any(r.process.poll() is None for r in self._running):
                time.sleep(LOOK_S)
        for one in self._running:
            self.took.append(f"{one.took_s:5.0f} s  stopped: {one.stage.run}")
            if one.output:
                one.output.close()
        self._running.clear()


def _copy(output: IO[bytes]) -> None:
    with output:
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
    sys.stdout.flush()


def say(line: str) -> None:
    print(line, flush=True)


@contextmanager
def interrupted() -> Iterator[None]:
    """SIGTERM is as Ctrl-C, and both are heeded, also where a shell began this in the background,
    which ignores SIGINT: stages would ignore it, too."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run stages alone and in lanes.")
    parser.add_argument("stages", type=Path)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--heartbeat", type=float, default=30, help="seconds")
    given = parser.parse_args()
    plan = tomllib.loads(given.stages.read_text())
    run, began = Run(given.heartbeat), time.monotonic()
    try:
        with interrupted():
            run.alone(Stage(**stage) for stage in plan.get("alone", []))
            run.beside((Stage(**stage) for stage in plan.get("beside", [])), given.lanes)
        code = 0
    except Failed:
        code = 1
    except KeyboardInterrupt:
        run.stop()
        code = 130
    say("\n".join([*run.took, f"{time.monotonic() - began:5.0f} s  in all"]))
    return code


if __name__ == "__main__":
    sys.exit(main())
