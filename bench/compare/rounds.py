"""Runs the rounds: all systems are started and warmed, then each row loads one after the other.

Between two rows' loads of different systems lie seconds, not minutes: a machine that slows down
slows both. Who has no turn is paused.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from compare import load, processes
from compare.failure import BenchFailure
from compare.progress import Progress, uninterrupted
from compare.record import Record, RowRun, Start
from compare.servers import Server, Tools, check_free, server_for
from compare.systems import SYSTEMS, Case, peer_of
from compare.workloads import Length, Row, arguments, estimate_s, one_message, warmups

START_TOPIC = 0
WARMUP_TOPIC = 1
ROWS_TOPIC = 3
"""Index of the first row's topic; the two before are for the warm-up."""
CONFIRM_TIMEOUT_S = 60.0
LOADGEN_SLACK_S = 300.0
"""What loadgen may take beyond its window, its backlog and drain included."""
START_ESTIMATE_S = {False: 10.0, True: 110.0}
"""Two starts and stops, with topics and groups; by whether it is a JVM."""
BREATH_S = 1.0
"""All run between two turns, and tell each other that they live."""
Running = dict[Case, tuple[Server, Start]]


@dataclass(frozen=True)
class Plan:
    cases: Sequence[Case]
    rows: Sequence[Row]
    rounds: int
    """How often everything is started anew."""
    length: Length
    warmup_s: dict[bool, float]
    """Load after each start, seconds, by whether it is a JVM."""
    turns: int = 1
    """How often, after one start, each system gets the load of a row."""

    def groups(self) -> list[list[Case]]:
        """What runs together: those that are compared with one peer, in one flush mode."""
        found: dict[tuple[str, str], list[Case]] = {}
        for case in self.cases:
            found.setdefault((peer_of(case.system), case.flush), []).append(case)
        return list(found.values())

    def estimate_s(self) -> float:
        return self.rounds * sum(map(self.case_estimate_s, self.cases))

    def case_estimate_s(self, case: Case) -> float:
        jvm = SYSTEMS[case.system].jvm
        rows_s = self.turns * sum(BREATH_S + estimate_s(row, self.length) for row in self.rows)
        return START_ESTIMATE_S[jvm] + self.warmup_s[jvm] + rows_s


@dataclass(frozen=True)
class Bench:
    """One run of the whole benchmark; `keep` writes the record down."""

    plan: Plan
    tools: Tools
    work: Path
    """Where servers keep their files while they run."""
    record: Record
    keep: Callable[[], None]
    progress: Progress

    def run(self) -> None:
        for number in range(1, self.plan.rounds + 1):
            for cases in self.plan.groups():
                self._round(number, cases)

    def _round(self, number: int, cases: Sequence[Case]) -> None:
        running: Running = {}
        with ExitStack() as stack:
            for place, case in enumerate(cases):
                self.progress.case(number, self.plan.rounds, str(case))
                try:
                    server = stack.enter_context(self._server(case, place))
                    running[case] = server, self._begin(number, case, server)
                except BenchFailure as failure:
                    self.progress.note(f"FAILED: {failure}")
                    self.record.rows.append(_failed(number, case, "start", failure))
                    self.keep()
                else:
                    server.pause()
            for index, row in enumerate(self.plan.rows, ROWS_TOPIC):
                for turn in range(self.plan.turns):
                    self._row((number - 1) * self.plan.turns + turn + 1, index, row, running)

    def _row(self, number: int, index: int, row: Row, running: Running) -> None:
        """Each in turn; another one begins in the next round. Results of a turn count as a round's:
        the systems' turns are beside each other in both."""
        order = list(running)
        first = (number + index) % max(len(order), 1)
        for case in order[first:] + order[:first]:
            server, start = running[case]
            _only(server, [server for server, _ in running.values()])
            self.record.rows.append(self._load(number, case, server, index, row))
            start.loaded = memories(server)
            self.keep()

    @contextmanager
    def _server(self, case: Case, place: int) -> Iterator[Server]:
        """A server with a fresh folder; both are gone afterwards, whatever happens."""
        self.work.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{case.system}-", dir=self.work))
        server = server_for(case, self.tools, folder, place)
        try:
            check_free(server.ports)
            yield server
        finally:
            with uninterrupted():
                try:
                    server.resume()
                    server.stop()
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.sync()

    def _begin(self, number: int, case: Case, server: Server) -> Start:
        """Started, measured and warmed."""
        jvm = SYSTEMS[case.system].jvm
        start = Start(case.system, case.flush, number, self._start(server))
        start.idle = memories(server)
        self.record.starts.append(start)
        self.keep()
        self.progress.done(START_ESTIMATE_S[jvm], f"started in {start.startup_s:.1f} s")
        for flags in warmups(self.plan.warmup_s[jvm], WARMUP_TOPIC):
            load.run(server, flags, self.plan.warmup_s[jvm] + LOADGEN_SLACK_S)
        self.progress.done(self.plan.warmup_s[jvm], "warm")
        return start

    def _start(self, server: Server) -> float:
        """Makes topics and groups, and starts once more, timed; seconds to a confirmed send."""
        server.start()
        receiving = [i for i, row in enumerate(self.plan.rows, ROWS_TOPIC) if row.receives]
        server.make(ROWS_TOPIC + len(self.plan.rows), [WARMUP_TOPIC + 1, *receiving])
        server.stop()
        os.sync()
        began = time.monotonic()
        server.start()
        while not load.confirms(server, one_message(START_TOPIC), timeout_s=5.0):
            if time.monotonic() - began > CONFIRM_TIMEOUT_S:
                raise BenchFailure(
                    f"no send was confirmed {CONFIRM_TIMEOUT_S:.0f} s after the start"
                )
            time.sleep(0.05)
        return time.monotonic() - began

    def _load(self, number: int, case: Case, server: Server, index: int, row: Row) -> RowRun:
        length = self.plan.length
        timeout_s = estimate_s(row, length) + LOADGEN_SLACK_S
        title, took_s = f"{row.title}, {case.system}", BREATH_S + estimate_s(row, length)
        try:
            report = load.run(server, arguments(row, index, length), timeout_s)
        except BenchFailure as failure:
            self.progress.done(took_s, f"{title}: FAILED: {failure}")
            return _failed(number, case, row.name, failure)
        told = load.figures(report, row.latency)
        self.progress.done(
            took_s,
            f"{title}: {told.messages_per_s:,.0f} msg/s,"
            f" {told.server_cpu_us:,.0f} µs CPU per message, others {told.other_percent:.0f} %",
        )
        return RowRun(case.system, case.flush, number, row.name, report)


def _only(server: Server, servers: Iterable[Server]) -> None:
    """It alone runs from now on."""
    others = [other for other in servers if other is not server]
    for one in (server, *others):
        one.resume()
    time.sleep(BREATH_S)
    for other in others:
        other.pause()


def _failed(number: int, case: Case, row: str, failure: BenchFailure) -> RowRun:
    """A row that could not be run; `start` when the system could not be started or warmed."""
    return RowRun(case.system, case.flush, number, row, None, str(failure))


def memories(server: Server) -> dict[str, processes.Memory]:
    """Name → resident memory of the processes of that name."""
    return {name: processes.memory(pids) for name, pids in server.processes().items()}
