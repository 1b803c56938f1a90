"""Reports and records as loadgen and the rounds make them, with few numbers."""

from typing import Any

from compare.processes import Memory
from compare.record import Record, RowRun, Start


def report(rate: float = 1000.0, **changes: Any) -> dict[str, Any]:
    """What `loadgen -json` prints, cut to what is read; CPU 300 µs per message of the servers."""
    latency = {"count": 10, "p50_ms": 2.0, "p99_ms": 8.0}
    return {
        "count": 10,
        "messages_per_s": rate,
        "send": latency,
        "cpu": {
            "loadgen": {"cpu_us_per_message": 50.0},
            "broker": {"cpu_us_per_message": 100.0},
            "proxy": {"cpu_us_per_message": 200.0},
        },
        "other_cpu_percent": 1.5,
        "missing": 0,
        "duplicates": 0,
        "errors": {},
        **changes,
    }


def record(rates: dict[str, list[float]], row: str = "send-16") -> Record:
    """`rates`: system → msg/s by round, sync flush. Starts take 1 s, or 10 s and more memory."""
    made = Record(
        started="2031-02-03T04:05:06+00:00",
        machine={"host": "h", "processor": "p", "cores": 2, "memory_gib": 8, "kernel": "k"},
        versions={"popmq": "1.2.3", "rocketmq": "5.5.0", "java": "openjdk 17"},
        settings={
            "rounds": 3,
            "seconds": 20.0,
            "warmup_jvm_s": 60.0,
            "warmup_popmq_s": 5.0,
        },
    )
    for system, values in rates.items():
        scale = 10.0 if system.startswith("rocketmq") else 1.0
        for number, rate in enumerate(values, 1):
            made.rows.append(RowRun(system, "sync", number, row, report(rate)))
            sizes = {"broker": Memory(100 * scale, 150 * scale), "proxy": Memory(50 * scale, 60)}
            made.starts.append(Start(system, "sync", number, scale, sizes, sizes))
    return made
