"""An empty replica copies a large log while messages flow: how much longer do sends take?

Two replicas in sync hold the log. Windows of sends at a steady rate, without and with a third one
that starts with an empty directory, until it is in sync.
"""

import json
import statistics
import subprocess
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compare import processes
from compare.failure import BenchFailure
from compare.servers import free_ports, patiently
from extremes import usage
from extremes.backlog import fill
from extremes.export import FLOWING, STORED, window_p99_ms
from extremes.outcome import Figure, Outcome
from extremes.services import Services

TITLE = "a third replica copies 5 GiB while 2,000 messages a second flow: p99 of sends"
BROKER = "broker-a"
RATIO = 2.0
"""p99 of sends while the replica catches up over that without."""
GROWTH_MIB = 100.0
"""Anonymous memory of the primary, and of the new replica behind its start."""
WITHOUT = 4
"""Windows before, and as many afterwards: a machine's speed drifts."""
CATCH_UP_S_MAX = 3_600.0


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=4_200_000, help="stored before")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of a body")
    parser.add_argument("--rate", type=int, default=2_000, help="messages sent a second")
    parser.add_argument("--window", type=float, default=10.0, help="seconds of one figure")


def variables(options: Namespace) -> dict[str, str]:
    return {"POPMQ_BROKER_NAME": BROKER, "POPMQ_BROKER_MIN_IN_SYNC": "2"}


def run(services: Services, options: Namespace, say: Any) -> Outcome:
    register = f"file://{services.folder / 'register'}"
    services.set_variables({"POPMQ_BROKER_REPLICA": "a1", "POPMQ_BROKER_REGISTER": register})
    services.start()
    with replica(services, "a2"):
        patiently(lambda: _in_sync(services, 2))
        for name in (STORED, FLOWING):
            services.make_topic(name)
        fill(services, STORED, options.messages, options.size)
        log_bytes = int(_group(services)["logEnd"])
        say(f"{options.messages:,} messages are stored, {log_bytes / (1 << 30):.1f} GiB")
        return _measured(services, options, say, log_bytes)


def _measured(services: Services, options: Namespace, say: Any, log_bytes: int) -> Outcome:
    window_p99_ms(services, options)  # connections, caches
    without = [window_p99_ms(services, options) for _ in range(WITHOUT)]
    during: list[float] = []
    primary = services.roots()["broker"]
    with replica(services, "a3") as follower:
        began = time.monotonic()
        with (
            usage.watched([primary], 1.0) as primary_memory,
            usage.watched([follower], 1.0) as follower_memory,
        ):
            while _in_sync_count(services) < 3:
                during.append(window_p99_ms(services, options))
                say(f"p99 {during[-1]:.1f} ms, {_behind_text(services)}")
                if time.monotonic() - began > CATCH_UP_S_MAX:
                    raise BenchFailure(f"not in sync after {CATCH_UP_S_MAX:.0f} s")
            took_s = time.monotonic() - began
        without += [window_p99_ms(services, options) for _ in range(WITHOUT)]
    names = ("messages", "size", "rate", "window", "front")
    settings = {name: getattr(options, name) for name in names}
    before, while_copying = statistics.median(without), statistics.median(during)
    return Outcome(
        "catch-up",
        settings,
        [
            Figure("p99 of sends, without", before, "ms"),
            Figure("p99 of sends, during the copy", while_copying, "ms"),
            Figure("p99, during ÷ without", while_copying / before, "", below=RATIO),
            Figure("p99 of the worst window, without", max(without), "ms"),
            Figure("p99 of the worst window, during", max(during), "ms"),
            Figure("windows, during", len(during), ""),
            Figure("log", log_bytes / (1 << 30), "GiB"),
            Figure("until in sync, up to a window more", took_s, "s"),
            Figure("copied", log_bytes / took_s / (1 << 20), "MiB/s"),
            Figure("primary's memory, growth", growth(primary_memory), "MiB", below=GROWTH_MIB),
            Figure("replica's memory, growth", growth(follower_memory), "MiB", below=GROWTH_MIB),
        ],
    )


def growth(samples: list[usage.Sample]) -> float:
    """MiB of anonymous memory from the first to the largest sample."""
    sizes = [sample.memory.anonymous_mib for sample in samples]
    return max(sizes) - sizes[0]


@contextmanager
def replica(services: Services, name: str) -> Iterator[int]:
    """Another one of the broker, in an empty directory; its PID."""
    port, folder = free_ports().broker, services.folder / name
    own = {"PORT": str(port), "DATA_DIR": str(folder), "REPLICA": name}
    environment = {
        **services.environment(),
        **{f"POPMQ_BROKER_{key}": value for key, value in own.items()},
    }
    log = services.folder / f"{name}.log"
    command = services.tools.pinned([str(services.tools.popmq), "broker"])
    pid = processes.launch(command, environment, log)
    try:
        processes.wait_listening(f"popmq broker {name}", pid, port, log)
        yield pid
    finally:
        processes.end([pid])


def _group(services: Services) -> dict[str, Any]:
    """`popmq replica list`, of the one broker. Raises `BenchFailure`."""
    command = [str(services.tools.popmq), "replica", "list", BROKER, "--json"]
    done = subprocess.run(
        [*command, "--endpoint", services.endpoint], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchFailure(f"popmq replica list: {done.stderr or done.stdout}")
    (found,) = json.loads(done.stdout)["groups"]
    fields: dict[str, Any] = found
    return fields


def _in_sync_count(services: Services) -> int:
    roles = [one["role"] for one in _group(services).get("replicas", [])]
    return sum(role in ("primary", "in sync") for role in roles)


def _in_sync(services: Services, count: int) -> None:
    if _in_sync_count(services) < count:
        raise BenchFailure(f"fewer than {count} replicas are in sync")


def _behind_text(services: Services) -> str:
    behind = max(int(one.get("behindBytes", 0)) for one in _group(services)["replicas"])
    return f"{behind / (1 << 20):,.0f} MiB to copy"
