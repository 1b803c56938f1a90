"""One point of a curve: a standalone on so many cores, held to its parts of them, under load."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compare import processes
from compare.failure import BenchFailure
from compare.load import GENERATOR, parsed
from scaling.quota import held_to

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


def measured(programs: Programs, load: Load, cores: int, quota: float, seconds: float) -> Point:
    """In a directory of its own. Raises `BenchFailure`."""
    with served(programs.popmq, cores) as (endpoint, supervisor, workers):
        names = [f"worker-{turn}={pid}" for turn, pid in enumerate(workers)]
        if supervisor not in workers:
            names.append(f"{SUPERVISOR}={supervisor}")
        command = [str(programs.loadgen), "-json", "-endpoint", endpoint, "-mode", load.mode]
        command += ["-topic", "scaling", "-group", "scaling", "-pids", ",".join(names)]
        command += ["-conns", str(CONNECTIONS * cores), "-inflight", str(INFLIGHT * cores)]
        if load.receivers:
            command += ["-receivers", str(load.receivers * cores), "-drain", "60s"]
        command += ["-duration", f"{seconds}s", "-warmup", f"{seconds / 2}s"]
        with held_to(quota, workers):
            done = subprocess.run(command, capture_output=True, check=False)
    report = parsed(done.stdout)
    if report is None:
        raise BenchFailure(f"loadgen: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return point_of(cores, load, report)


@contextmanager
def served(popmq: Path, cores: int) -> Iterator[tuple[str, int, list[int]]]:
    """(endpoint, the supervisor's PID, PIDs of workers); without further cores it is the worker."""
    folder = Path(tempfile.mkdtemp(prefix="popmq-scaling-"))
    options = ["--cores", str(cores), "--port", "0", "--data-dir", str(folder)]
    command = [str(popmq), "standalone", *options, "--no-console", "--json", "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchFailure(f"popmq standalone ended with exit code {process.wait(START_S)}")
        workers = processes.family(process.pid, processes.parents())[1:] or [process.pid]
        yield json.loads(line)["endpoint"], process.pid, workers
    finally:
        process.terminate()
        process.wait(STOP_S)
        shutil.rmtree(folder, ignore_errors=True)
