"""Runs loadgen, and reads its report."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compare.failure import BenchFailure
from compare.servers import Server

Report = dict[str, Any]
"""What `loadgen -json` prints, as it is."""

GENERATOR = "loadgen"


@dataclass(frozen=True)
class Latency:
    """Milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Figures:
    """What the tables need of one report."""

    messages_per_s: float
    server_cpu_us: float
    """CPU time of all server processes, microseconds per message."""
    cpu_us: dict[str, float]
    """The same by process, the load generator's too."""
    other_percent: float
    """What processes outside the benchmark used, percent of one core."""
    latency: Latency | None
    missing: int = 0
    """Confirmed messages that did not come."""
    duplicates: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Status code → how often."""


def figures(report: Report, latency: str) -> Figures:
    """`latency` is send, receive or end_to_end."""
    cpu_us = {name: float(used["cpu_us_per_message"]) for name, used in report["cpu"].items()}
    measured = report.get(latency)
    return Figures(
        messages_per_s=float(report["messages_per_s"]),
        server_cpu_us=sum(used for name, used in cpu_us.items() if name != GENERATOR),
        cpu_us=cpu_us,
        other_percent=float(report["other_cpu_percent"]),
        latency=Latency(measured["p50_ms"], measured["p99_ms"]) if measured else None,
        missing=int(report["missing"]),
        duplicates=int(report["duplicates"]),
        errors={code: int(kind["count"]) for code, kind in (report["errors"] or {}).items()},
    )


def run(server: Server, flags: Sequence[str], timeout_s: float) -> Report:
    """One run of loadgen; messages that are missing are in the report and no failure here."""
    command = [*_command(server, flags), "-pids", server.pids_flag()]
    try:
        done = subprocess.run(
            command,
            env=server.client_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise BenchFailure(f"loadgen did not end in {timeout_s:.0f} s") from late
    report = parsed(done.stdout)
    if report is None or not report["count"]:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        errors = json.dumps(report["errors"]) if report else ""
        raise BenchFailure(
            f"loadgen ended with {done.returncode}: {' | '.join(told[-3:])} {errors}"
        )
    return report


def confirms(server: Server, flags: Sequence[str], timeout_s: float) -> bool:
    """Whether the server confirmed a message of this short run."""
    command = _command(server, flags)
    try:
        done = subprocess.run(
            command,
            env=server.client_environment(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    report = parsed(done.stdout)
    return report is not None and report["sent"] > 0


def _command(server: Server, flags: Sequence[str]) -> list[str]:
    tools = server.tools
    user = ["-user", server.user] if server.user else []
    return tools.pinned([str(tools.loadgen), "-json", "-endpoint", server.endpoint, *user, *flags])


def parsed(output: bytes) -> Report | None:
    """The report, or None when loadgen printed none."""
    try:
        report = json.loads(output)
    except json.JSONDecodeError:
        return None
    return report if isinstance(report, dict) else None
