"""The broker of the campaign, one life after the other, each ended by kill -9.

What a life is like is a matter of chance: how long it lasts, whether its pops and acks stay in
memory (pop_buffer), whether it is killed while it starts. Most are forked from a process that has
PopMQ imported (preloaded.py), one in `REAL_EVERY` is what a user would start.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.told import PRICE_S, Told
from harness.processes import STOP_S, Process

SETTINGS = {
    "POPMQ_PROXY_INVISIBLE_MS_MIN": "100",
    "POPMQ_PROXY_TRANSACTION_POLL_MS": "100",
    "POPMQ_BROKER_SEGMENT_BYTES": str(1 << 18),
    "POPMQ_BROKER_QUEUE_FILE_BYTES": str(20 * 1_000),
    "POPMQ_BROKER_INDEX_SLOTS": "500",
    "POPMQ_BROKER_INDEX_ENTRIES": "2000",
    "POPMQ_BROKER_OFFSETS_INTERVAL_MS": "400",
    "POPMQ_BROKER_POP_BUFFER_STAY_MS": "700",
    "POPMQ_BROKER_TIMER_SNAPSHOT_INTERVAL_MS": "200",
    "POPMQ_BROKER_TIMER_ROLL_MS": "500",
    "POPMQ_BROKER_TRANSACTION_IMMUNITY_MS": "400",
    "POPMQ_BROKER_TRANSACTION_CHECK_INTERVAL_MS": "500",
    "POPMQ_BROKER_TRANSACTION_CHECKS_MAX": "100000",
    "POPMQ_BROKER_HALF_MOVE_MS": "500",
}
"""Small, so that every kill is near the edge of something."""
LIFE_S = (0.05, 1.0)
"""From the first answer to the kill."""
LIFE_IN_MEMORY_S = (0.05, 2 * PRICE_S)
"""Long enough for acks that a crash must not undo any more."""
IN_MEMORY = 0.06
"""Of all lives."""
CUT_STARTS = 0.25
REAL_EVERY = 16
TESTS = Path(__file__).resolve().parents[1]


class Preloaded:
    """The process that forks brokers; see preloaded.py."""

    def __init__(self) -> None:
        environ = {name: value for name, value in os.environ.items() if "POPMQ" not in name}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.preloaded"],
            env={**environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{environ.get('PYTHONPATH', '')}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=STOP_S)


@dataclass
class Lives:
    process: Process
    told: Told
    rng: random.Random
    fault: str | None = None
    in_memory: float = IN_MEMORY
    """The share of lives whose pops and acks stay in memory."""
    kills: int = 0
    cut_starts: int = 0
    in_memory_count: int = 0
    start_s: float = 0.3
    """How long the last start took."""
    slowest_s: float = 0.0
    _life_s: tuple[float, float] = LIFE_S
    _is_real: bool = True
    _killed: float = 0.0
    _preloaded: Preloaded = field(default_factory=Preloaded)

    def life_s(self) -> float:
        """How long this one is to last."""
        return self.rng.uniform(*self._life_s)

    async def next(self) -> None:
        """Kill it, and start another one that is ready when this returns."""
        await self._kill()
        while self.rng.random() < CUT_STARTS:
            self._begin()
            await asyncio.sleep(self.rng.uniform(0.0, self.start_s))
            await self._kill()
            self.cut_starts += 1
        began = time.monotonic()
        self._begin()
        await asyncio.to_thread(self._wait_ready)
        took_s = time.monotonic() - began
        self.slowest_s = max(self.slowest_s, took_s)
        if not self._is_real:
            self.start_s = took_s
        self.kills += 1

    def _begin(self) -> None:
        in_memory = self.rng.random() < self.in_memory
        self.in_memory_count += in_memory
        self._life_s = LIFE_IN_MEMORY_S if in_memory else LIFE_S
        self._is_real = self.fault is None and self.kills % REAL_EVERY == REAL_EVERY - 1
        self.told.begin_life(killed=self._killed, began=time.monotonic(), in_memory=in_memory)
        mode = {"POPMQ_BROKER_POP_BUFFER": "memory" if in_memory else "durable"}
        self.process.env = {**self.process.env, **mode}
        if self._is_real:
            self.process.spawn()
        else:
            log = str(self.process.log)
            self._preloaded.ask({"start": self.process.env, "log": log, "fault": self.fault})

    def _wait_ready(self) -> None:
        if self._is_real:
            self.process.wait_ready()
        else:
            self.process.wait_listening(lambda: self._preloaded.ask("poll") is not None)

    async def _kill(self) -> None:
        self._killed = time.monotonic()
        await asyncio.to_thread(self._end_life)

    def _end_life(self) -> None:
        if self._is_real:
            self.process.kill()
            assert self.process.running is not None
            status = self.process.running.returncode
        else:
            status = self._preloaded.ask("kill")
        assert status == -signal.SIGKILL, f"{status}: {self.process.log.read_text()[-5_000:]}"

    def end(self) -> None:
        """The last one is killed, whatever has happened; the directory stays as it is then."""
        try:
            self._end_life()
        finally:
            self._preloaded.close()
