"""One point of a curve: so many processes, each held to a part of a core, under load."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from compare import processes
from compare.failure import BenchFailure
from compare.load import GENERATOR, parsed
from compare.servers import Ports, Tools
from extremes.services import Services, in_folder
from scaling.quota import held_to

TOPIC: Final = "scaling"
PORTS: Final = Ports(nameserver=21_090, broker=21_100, proxy=21_091)
"""The shards have those after the broker's."""
START_S: Final = 60.0
STOP_S: Final = 60.0
SUPERVISOR: Final = "supervisor"
CONNECTIONS, INFLIGHT, RECEIVERS = 4, 16, 8
"""Of the load, for each core of the server."""


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    title: str
    mode: str
    latency: str
    receivers: int = 0


LOADS: Final = {
    one.name: one
    for one in (
        Load("send", "send", "send", "send"),
        Load("e2e", "end to end", "e2e", "end_to_end", RECEIVERS),
    )
}


@dataclass(frozen=True, slots=True)
class Point:
    cores: int
    messages_per_s: float
    cpu_us: float
    """Of all the server's processes, per message."""
    supervisor_us: float
    p99_ms: float
    other_percent: float
    """What processes outside the benchmark used, percent of one core."""


@dataclass(frozen=True, slots=True)
class Programs:
    popmq: Path
    loadgen: Path


def point_of(cores: int, load: Load, report: dict[str, Any]) -> Point:
    """From loadgen's report. Raises `BenchFailure` for messages that did not come and errors."""
    if report["missing"] or report["errors"]:
        told = json.dumps(report["errors"])
        raise BenchFailure(f"{cores} cores: {report['missing']} messages missing, errors {told}")
    used = {name: one["cpu_us_per_message"] for name, one in report["cpu"].items()}
    return Point(
        cores,
        report["messages_per_s"],
        sum(us for name, us in used.items() if name != GENERATOR),
        used.get(SUPERVISOR, 0.0),
        report[load.latency]["p99_ms"],
        report["other_cpu_percent"],
    )


def measured(
    programs: Programs, load: Load, cores: int, quota: float, seconds: float, *, cluster: bool
) -> Point:
    """In a directory of its own. Raises `BenchFailure`."""
    with (served_cluster if cluster else served)(programs, cores) as server:
        names = [f"worker-{turn}={pid}" for turn, pid in enumerate(server.workers)]
        names += [f"{SUPERVISOR}={pid}" for pid in server.supervisors]
        command = [str(programs.loadgen), "-json", "-endpoint", server.endpoint]
        command += ["-mode", load.mode, "-topic", TOPIC, "-group", TOPIC, "-pids", ",".join(names)]
        command += ["-conns", str(CONNECTIONS * cores), "-inflight", str(INFLIGHT * cores)]
        if load.receivers:
            command += ["-receivers", str(load.receivers * cores), "-drain", "60s"]
        command += ["-duration", f"{seconds}s", "-warmup", f"{seconds / 2}s"]
        with held_to(quota, server.workers):
            done = subprocess.run(command, capture_output=True, check=False)
    report = parsed(done.stdout)
    if report is None:
        raise BenchFailure(f"loadgen: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return point_of(cores, load, report)


class Served(NamedTuple):
    endpoint: str
    workers: list[int]
    """PIDs of the processes that serve."""
    supervisors: list[int]


@contextmanager
def served(programs: Programs, cores: int) -> Iterator[Served]:
    """A standalone; without further cores it has no supervisor."""
    folder = Path(tempfile.mkdtemp(prefix="popmq-scaling-"))
    options = ["--cores", str(cores), "--port", "0", "--data-dir", str(folder), "--no-console"]
    command = [str(programs.popmq), "standalone", *options, "--json", "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchFailure(f"popmq standalone ended with exit code {process.wait(START_S)}")
        family = processes.family(process.pid, processes.parents())
        yield Served(json.loads(line)["endpoint"], family[1:] or family, family[:1] * (cores > 1))
    finally:
        process.terminate()
        process.wait(STOP_S)
        shutil.rmtree(folder, ignore_errors=True)


class ManyProcesses(Services):
    """A nameserver, a broker of so many shards, a proxy of as many workers."""

    def __init__(self, tools: Tools, folder: Path, count: int) -> None:
        super().__init__(tools, folder, "http2", {}, ports=PORTS)
        self._count = count

    def brokers_count(self) -> int:
        return self._count

    def commands(self) -> list[tuple[str, int, list[str]]]:
        nameserver, (_, broker, broker_words), (_, proxy, proxy_words) = super().commands()
        count = str(self._count)
        return [
            nameserver,
            ("broker", broker, [*broker_words, "--shards", count]),
            ("proxy", proxy, [*proxy_words, "--workers", count]),
        ]


@contextmanager
def served_cluster(programs: Programs, cores: int) -> Iterator[Served]:
    """A broker and a proxy, each of so many processes."""
    nowhere = Path("none")
    tools = Tools(programs.popmq, programs.popmq, programs.loadgen, nowhere, None)
    work = Path(tempfile.gettempdir())
    with in_folder(work, lambda folder: ManyProcesses(tools, folder, cores)) as server:
        server.start()
        server.make_topic(TOPIC)
        server.make_group(TOPIC, "last")
        families = [server.processes()[name] for name in ("broker", "proxy")]
        workers = [pid for family in families for pid in family[1:] or family]
        supervisors = [family[0] for family in families if len(family) > 1]
        yield Served(server.endpoint, workers, supervisors)
