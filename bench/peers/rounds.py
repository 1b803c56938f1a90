"""The rounds: starts all systems, lets them take turns at each row, stops them."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from compare.failure import BenchFailure
from compare.progress import uninterrupted
from peers import turns
from peers.results import PeersRecord, PeerStart
from peers.servers import Commands, PeerServer
from peers.systems import runs
from peers.turns import Length
from peers.workers import Worker, workers

DRAIN_S = 12.0
"""What a turn is likely to take besides its window."""
START_S = 4.0
FIRST_S = 90.0


@dataclass(frozen=True)
class PeersPlan:
    systems: Sequence[str]
    rows: Sequence[str]
    processes: Sequence[int]
    rounds: int
    length: Length

    def estimate_s(self) -> float:
        turns_count = sum(runs(system, row) for system in self.systems for row in self.rows)
        each_s = self.length.seconds + DRAIN_S
        a_round_s = turns_count * len(self.processes) * each_s + len(self.systems) * START_S
        return self.rounds * a_round_s


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Rounds:
    """Writes into `record`, and has it kept after each turn."""

    def __init__(
        self,
        plan: PeersPlan,
        commands: Commands,
        work: Path,
        record: PeersRecord,
        keep: Callable[[], None],
    ) -> None:
        self._plan, self._commands, self._work = plan, commands, work
        self._record, self._keep = record, keep

    def run(self) -> None:
        for number in range(1, self._plan.rounds + 1):
            self._round(number)

    def _round(self, number: int) -> None:
        folder = self._work / f"round-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            started: list[tuple[PeerServer, PeerStart]] = []
            for name in self._plan.systems:
                server = PeerServer(name, self._commands, folder / name)
                stack.callback(_stop, server)
                if start := self._start(server, number):
                    started.append((server, start))
            self._rows(number, [server for server, _ in started])
            for server, start in started:
                start.loaded_mib = server.memory().anonymous_mib
                self._record.starts.append(start)
            self._keep()

    def _start(self, server: PeerServer, number: int) -> PeerStart | None:
        """The client is loaded before, and is not counted. Paused afterwards."""
        worker = Worker(self._commands, server, 0)
        try:
            began_s = time.monotonic()
            server.start()
            worker.ask("first", place="start")
            worker.answer(FIRST_S)
            took_s = time.monotonic() - began_s
        except BenchFailure as failure:
            self._fail(f"{server.name}, start, round {number}: {failure}")
            return None
        finally:
            worker.close()
        say(f"round {number}: {server.name} started in {took_s:.1f} s")
        start = PeerStart(server.name, number, took_s, server.memory().anonymous_mib)
        server.pause()
        return start

    def _rows(self, number: int, servers: Sequence[PeerServer]) -> None:
        """Another system begins at each row."""
        shift = number - 1
        for count in self._plan.processes:
            for row in self._plan.rows:
                for place in range(len(servers)):
                    server = servers[(place + shift) % len(servers)]
                    if runs(server.name, row):
                        self._turn(row, number, count, server)
                shift += 1

    def _turn(self, row: str, number: int, count: int, server: PeerServer) -> None:
        server.resume()
        try:
            with workers(self._commands, server, count) as everyone:
                turn = turns.run(row, number, server, everyone, self._plan.length)
        except BenchFailure as failure:
            self._fail(f"{server.name}, {row}, {count} clients, round {number}: {failure}")
            return
        finally:
            server.pause()
        self._record.turns.append(turn)
        self._keep()
        say(
            f"{server.name}, {row}, {count} clients: {turn.messages_per_s:,.0f} a second, CPU of"
            f" server {turn.server_cpu_us:.0f} µs, of clients {turn.client_cpu_us:.0f} µs;"
            f" {turn.confirmed:,} confirmed, {turn.missing:,} missing"
        )

    def _fail(self, text: str) -> None:
        say(f"failed: {text}")
        self._record.failures.append(text)
        self._keep()


def _stop(server: PeerServer) -> None:
    with uninterrupted():
        server.stop()
