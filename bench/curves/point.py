"""One point of a curve: what was measured with so much of something."""

from dataclasses import dataclass
from typing import Any

from compare import load, processes
from compare.failure import BenchFailure
from extremes import usage
from extremes.services import Services


@dataclass(frozen=True, slots=True)
class CurvePoint:
    value: int
    """How much of what the curve is about."""
    messages_per_s: float
    cpu_us: float
    """Of all server processes, per message."""
    p99_ms: float | None
    memory_mib: float
    """Anonymous memory of all server processes, after the load."""
    other_percent: float = 0.0
    """What processes outside the benchmark used, percent of one core."""


def of_report(value: int, report: load.Report, latency: str, services: Services) -> CurvePoint:
    """`latency`: send, receive or end_to_end."""
    return of_figures(value, load.figures(report, latency), services)


def of_figures(value: int, found: load.Figures, services: Services) -> CurvePoint:
    """Raises `BenchFailure` for messages that did not come."""
    if found.missing:
        raise BenchFailure(f"{found.missing} messages are missing")
    memory = processes.memory(usage.everyone(services.processes()))
    p99_ms = None if found.latency is None else found.latency.p99_ms
    return CurvePoint(
        value,
        found.messages_per_s,
        found.server_cpu_us,
        p99_ms,
        memory.anonymous_mib,
        found.other_percent,
    )


def document(point: CurvePoint) -> dict[str, Any]:
    """For --json."""
    return {name: getattr(point, name) for name in CurvePoint.__slots__}
