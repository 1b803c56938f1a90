"""Processes that serve an app: several at a time, or one that is started again at each change.

Each has a session of its own, so Ctrl-C comes here alone and is handed on once. It sees the end of
this process by the end of its standard input.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from popmq._core.backoff import Backoff
from popmq.app.run_options import FAILED, MISUSED, SUPERVISED, RunOptions
from popmq.connection.pause import pause_s

log = logging.getLogger(__name__)
LOOK_S: Final = 0.2
"""How often it looks after its processes."""
FILES_S: Final = 0.5
"""How often it looks for changed files."""
BACKOFF: Final = Backoff(first_s=0.5, longest_s=30.0)
LONG_S: Final = 60.0
"""A process that has lived so long starts with the shortest delay again."""
FILES_MAX: Final = 20_000
"""That are watched."""
NOT_WATCHED: Final = ("__pycache__", "node_modules", "site-packages")


class WorkerProcess:
    """One process, and its successors."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._failures = 0
        self._started_s = 0.0
        self.due_s = 0.0
        """When it may be started again, by `time.monotonic`."""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def code(self) -> int:
        """That the last process ended with."""
        return 0 if self.process is None else self.process.returncode

    @property
    def has_failed(self) -> bool:
        """Not if SIGTERM came so early that nobody listened to it."""
        return self.code not in (0, -signal.SIGTERM)

    def start(self) -> None:
        self._started_s = time.monotonic()
        self.process = subprocess.Popen(
            self._options.command(),
            stdin=subprocess.PIPE,
            env={**os.environ, SUPERVISED: "1"},
            start_new_session=True,
        )

    def ended(self) -> float:
        """By itself. Seconds until it may be started again."""
        now_s = time.monotonic()
        self._failures = 1 if now_s - self._started_s > LONG_S else self._failures + 1
        after_s = pause_s(self._failures, BACKOFF)
        self.due_s = now_s + after_s
        return after_s

    def tell(self, number: int) -> None:
        if self.process is not None and self.is_running:
            self.process.send_signal(number)

    def stop(self) -> None:
        """And wait for it; its handlers end first."""
        self.tell(signal.SIGTERM)
        if self.process is not None:
            self.process.wait()


class StopSignals:
    """To stop, by SIGTERM or SIGINT; each further signal is handed on too, and hurries them."""

    def __init__(self) -> None:
        self.times = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        def count(_number: int, _frame: object) -> None:
            self.times += 1

        before = {one: signal.signal(one, count) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def several(options: RunOptions) -> int:
    """`options.workers` processes; one that fails is replaced. Ends when all have ended in order.
    Returns what this process is to end with."""
    _log_as(options)
    workers = [WorkerProcess(options) for _ in range(options.workers)]
    asked, told = StopSignals(), 0
    with asked.listening():
        for worker in workers:
            worker.start()
        while any(worker.is_running or worker.code for worker in workers):
            if asked.times > told:
                told = asked.times
                for worker in workers:
                    worker.tell(signal.SIGTERM)
            if told and not any(worker.is_running for worker in workers):
                break
            if not told and any(_is_misused(worker) for worker in workers):
                for worker in workers:
                    worker.stop()
                return MISUSED
            if not told:
                _replace(workers)
            time.sleep(LOOK_S)
    return FAILED if any(worker.has_failed for worker in workers) else 0


def _is_misused(worker: WorkerProcess) -> bool:
    """There is nothing to run, which it has said."""
    return not worker.is_running and worker.code == MISUSED


def _replace(workers: list[WorkerProcess]) -> None:
    for worker in workers:
        if worker.is_running or not worker.code:
            continue
        if not worker.due_s:
            after_s = worker.ended()
            text = "a worker ended with %d, another starts in %.1f s"
            log.error(text, worker.code, after_s, extra={})
        elif time.monotonic() >= worker.due_s:
            worker.due_s = 0.0
            worker.start()


def reloading(options: RunOptions) -> int:
    """One process, replaced whenever a Python file below the current folder changes. Returns what
    this process is to end with."""
    _log_as(options)
    worker, asked, told = WorkerProcess(options), StopSignals(), 0
    with asked.listening():
        worker.start()
        seen = files()
        while not told or worker.is_running:
            if asked.times > told:
                told = asked.times
                worker.tell(signal.SIGTERM)
            elif not told and (now := files()) != seen:
                changed = sorted(path for path, _ in seen.items() ^ now.items())
                log.info("%s has changed", changed[0])
                seen = now
                worker.stop()
                worker.start()
            time.sleep(FILES_S)
    return FAILED if worker.has_failed else 0


def files() -> dict[str, int]:
    """Python files below the current folder, and when they were written."""
    found: dict[str, int] = {}
    for folder, inside, names in os.walk("."):
        inside[:] = [
            one
            for one in inside
            if not one.startswith(".")
            and one not in NOT_WATCHED
            and not Path(folder, one, "pyvenv.cfg").exists()
        ]
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and len(found) < FILES_MAX:
                with contextlib.suppress(OSError):  # it is gone
                    found[path] = os.stat(path).st_mtime_ns
    return found


def _log_as(options: RunOptions) -> None:
    logging.basicConfig(
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s",
        stream=sys.stderr,
    )
