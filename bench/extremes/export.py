"""A snapshot while messages flow: how much longer do sends take?

A topic is filled. Then windows of sends at a steady rate, in turn without an export and with one:
each export is whole, and windows follow each other until it has ended. A window during which the
export has ended counts for neither side.
"""

import json
import statistics
import subprocess
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compare import load
from compare.failure import BenchFailure
from extremes.backlog import fill
from extremes.outcome import Figure, Outcome
from extremes.services import Services

TITLE = "a snapshot of 5,000,000 messages while 2,000 a second flow: p99 of sends"
STORED, FLOWING = "stored", "flowing"
RATIO = 1.5
"""p99 of sends while an export runs over that without one."""
WITHOUT_PER_ROUND = 3
"""Windows before each export, and as many behind the last one: a machine's speed drifts."""
PAUSE_S = 1.0
EXPORT_TIMEOUT_S = 3_600.0


@dataclass(frozen=True)
class Windows:
    """p99 of sends in milliseconds, of each window."""

    without: list[float]
    during: list[float]


@dataclass(frozen=True)
class Exported:
    rows: int
    seconds: float
    size_bytes: int


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=5_000_000, help="stored before")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of a body")
    parser.add_argument("--rate", type=int, default=2_000, help="messages sent a second")
    parser.add_argument("--window", type=float, default=10.0, help="seconds of one figure")
    parser.add_argument("--rounds", type=int, default=3, help="exports")
    parser.add_argument("--rows-per-s", type=int, help="the exporter's pace; default: the broker's")


def variables(options: Namespace) -> dict[str, str]:
    found = {"POPMQ_BROKER_EXPORT_KEEP": "1"}
    if options.rows_per_s is not None:
        found["POPMQ_BROKER_EXPORT_ROWS_PER_S"] = str(options.rows_per_s)
    return found


def run(services: Services, options: Namespace, say: Any) -> Outcome:
    services.start()
    for name in (STORED, FLOWING):
        services.make_topic(name)
    fill(services, STORED, options.messages, options.size)
    say(f"{options.messages:,} messages are stored")
    window_p99_ms(services, options)  # connections, caches
    windows, exported = Windows([], []), []
    for round_ in range(1, options.rounds + 1):
        for _ in range(WITHOUT_PER_ROUND):
            windows.without.append(window_p99_ms(services, options))
        exported.append(_during(services, options, windows.during))
        say(f"round {round_}: {_told(windows)}; {exported[-1].rows:,} rows")
    for _ in range(WITHOUT_PER_ROUND):
        windows.without.append(window_p99_ms(services, options))
    names = ("messages", "size", "rate", "window", "rounds", "front")
    settings = {name: getattr(options, name) for name in names}
    return Outcome("export", settings, figures(windows, exported))


def figures(windows: Windows, exported: Sequence[Exported]) -> list[Figure]:
    """Medians of the windows, and their ratio."""
    if not windows.during:
        raise BenchFailure("each export ended in its first window: more --messages")
    without, during = statistics.median(windows.without), statistics.median(windows.during)
    last = exported[-1]
    return [
        Figure("p99 of sends, without", without, "ms"),
        Figure("p99 of sends, during an export", during, "ms"),
        Figure("p99, during ÷ without", during / without, "", below=RATIO),
        Figure("p99 of the worst window, without", max(windows.without), "ms"),
        Figure("p99 of the worst window, during", max(windows.during), "ms"),
        Figure("windows, without", len(windows.without), ""),
        Figure("windows, during", len(windows.during), ""),
        Figure("an export takes", last.seconds, "s"),
        Figure("rows of all tables", last.rows, ""),
        Figure("rows a second", last.rows / last.seconds, ""),
        Figure("size", last.size_bytes / (1 << 20), "MiB"),
    ]


def window_p99_ms(services: Services, options: Namespace) -> float:
    """p99 of sends at the rate."""
    flags = ["-mode", "send", "-topic", FLOWING, "-size", str(options.size)]
    flags += ["-rate", str(options.rate), "-inflight", "256", "-conns", "8"]
    flags += ["-warmup", "1s", "-duration", f"{options.window:g}s"]
    found = load.figures(services.load(flags, options.window), "send")
    if found.latency is None:
        raise BenchFailure("no latency was measured")
    return found.latency.p99_ms


def _during(services: Services, options: Namespace, found: list[float]) -> Exported:
    """Windows while one export runs; what it was."""
    _export(services, "now", "--whole", "--no-wait")
    deadline = time.monotonic() + EXPORT_TIMEOUT_S
    while time.monotonic() < deadline:
        p99_ms = window_p99_ms(services, options)
        status = _export(services, "status")
        if not status["running"]:
            break
        found.append(p99_ms)
    while status["running"] and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        status = _export(services, "status")
    last = status["last"]
    if last is None or last["failure"] or last["problems"]:
        raise BenchFailure(f"the export failed: {last}")
    return Exported(last["rows"], last["durationMs"] / 1_000, last["bytes"])


def _export(services: Services, *words: str) -> dict[str, Any]:
    """`popmq export WORDS`, of the one broker."""
    command = [str(services.tools.popmq), "export", *words, "--json"]
    done = subprocess.run(
        [*command, "--endpoint", services.endpoint], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchFailure(f"popmq export {words[0]}: {done.stderr or done.stdout}")
    (told,) = json.loads(done.stdout)["brokers"]
    if told["failure"]:
        raise BenchFailure(told["failure"])
    fields: dict[str, Any] = told
    return fields


def _told(windows: Windows) -> str:
    without, during = (
        ", ".join(f"{ms:.2f}" for ms in side[-WITHOUT_PER_ROUND:])
        for side in (windows.without, windows.during)
    )
    return f"p99 {without} ms without, {during} ms during"
