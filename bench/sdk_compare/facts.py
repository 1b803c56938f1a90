"""`python -m sdk_compare.facts [PART …]`: docs/compare-python-clients.md but for the throughput.

What an installation pulls, what an import and a hundred consumers cost, and what an application
sees when it is told to stop, and when its server goes away. Linux. Some six minutes, most of them
waiting; `pip` asks the package index.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from popmq.sync import SyncClient
from sdk_compare.server import new_group, standalone
from sdk_compare.sides import OFFICIAL, ROOT, official_python

HERE = Path(__file__).parent
MANY = 100
HELD = 8
DOWN_S = 3.0
"""How long the server is away."""
AGAIN_S = 200.0
"""How long what was held at the end is waited for."""
PORT = 18_181
Commands = dict[str, list[str]]


def commands() -> Commands:
    return {
        "official": [str(official_python()), str(HERE / "probe_official.py")],
        "popmq": [sys.executable, "-m", "sdk_compare.probe_popmq"],
    }


class Probe:
    """A client's process, and what it says."""

    def __init__(self, command: list[str], what: str, *arguments: str) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT / "bench"), "HOME": tempfile.gettempdir()}
        self.process = subprocess.Popen(
            [*command, what, *arguments],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: Queue[list[Any]] = Queue()
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("["):
                self._lines.put(json.loads(line))

    def said(self, within_s: float = 60.0) -> list[Any]:
        return self._lines.get(timeout=within_s)

    def all_said(self) -> list[list[Any]]:
        found = []
        while True:
            try:
                found.append(self._lines.get_nowait())
            except Empty:
                return found

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def probe(command: list[str], what: str, *arguments: str) -> Iterator[Probe]:
    running = Probe(command, what, *arguments)
    try:
        yield running
    finally:
        running.end()


def distributions() -> dict[str, list[str]]:
    """What `pip install` pulls into an empty environment, without installing it."""
    found = {}
    for name, wanted in (("official", OFFICIAL), ("popmq", str(ROOT))):
        pip = [str(official_python()), "-m", "pip", "install", "--dry-run", "--ignore-installed"]
        done = subprocess.run(
            [*pip, "--quiet", "--report", "-", wanted], check=True, stdout=subprocess.PIPE
        )
        packages = [one["metadata"] for one in json.loads(done.stdout)["install"]]
        found[name] = sorted(f"{one['name']} {one['version']}" for one in packages)
    return found


def imports() -> dict[str, str]:
    """CPU time and resident memory of the import, in a process of its own; the least of five."""
    code = (
        "import sys, time; began = time.process_time(); import {}; "
        "took = time.process_time() - began; "
        "from sdk_compare.probing import size; print(took, size()[0], len(sys.modules))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bench"), "HOME": tempfile.gettempdir()}
    found = {}
    for name, python in (("official", str(official_python())), ("popmq", sys.executable)):
        module = "rocketmq" if name == "official" else "popmq"
        runs = [
            subprocess.run(
                [python, "-c", code.format(module)], env=env, check=True, stdout=subprocess.PIPE
            ).stdout.split()
            for _ in range(5)
        ]
        least = min(runs, key=lambda run: float(run[0]))
        took_s, mib, modules = float(least[0]), float(least[1]), int(least[2])
        found[name] = f"{took_s:.2f} s of CPU, {mib:.0f} MiB, {modules:,} modules"
    return found


def memory(endpoint: str) -> dict[str, str]:
    found = {}
    for name, command in commands().items():
        sizes = []
        for count in (1, MANY):
            with probe(command, "consumers", endpoint, "sizes", name, str(count)) as running:
                _, mib, threads = running.said()
                sizes.append(f"{count} consumer(s): {mib:.0f} MiB, {threads} threads")
        found[name] = "; ".join(sizes)
    return found


def stopped(endpoint: str) -> dict[str, str]:
    """SIGTERM while `HELD` handlers run."""
    found = {}
    for name, command in commands().items():
        topic, group = f"stop-{name}", f"stop-{name}"
        new_group(endpoint, group)
        with SyncClient(endpoint) as client:
            for i in range(4 * HELD):
                client.producer().send(topic, b"%d" % i)
        with probe(command, "handle", endpoint, topic, group, str(HELD)) as running:
            begun = {running.said()[1] for _ in range(HELD)}
            running.process.send_signal(signal.SIGTERM)
            began_s = time.monotonic()
            code = running.process.wait(60)
            took_s = time.monotonic() - began_s
            time.sleep(0.2)
            ended = {line[1] for line in running.all_said() if line[0] == "ended"}
        found[name] = (
            f"exit code {code} after {took_s:.1f} s; of {HELD} messages that were handled "
            f"{len(begun & ended)} were finished; {_again(endpoint, topic, group, begun)}"
        )
    return found


def _again(endpoint: str, topic: str, group: str, begun: set[str]) -> str:
    """What comes to the next consumer, and when."""
    began_s = time.monotonic()
    twice: set[str] = set()
    first: set[str] = set()
    last_s = 0.0
    counted = 0
    with SyncClient(endpoint) as client, client.consumer(topic, group, held_max=64) as consumer:
        while time.monotonic() < began_s + AGAIN_S and len(first | twice) < 4 * HELD:
            for message in consumer.receive(64, wait_s=1):
                text = message.body.decode()
                (twice if text in begun else first).add(text)
                counted += message.delivery_attempt > 1
                last_s = time.monotonic() - began_s
                consumer.ack(message)
    return (
        f"the next consumer got {len(twice)} of them again and {len(first)} that nobody had begun, "
        f"{counted} with a counted attempt, the last one after {last_s:.0f} s"
    )


def restarted(folder: Path) -> dict[str, str]:
    """The server away for a few seconds while an application sends one message after the other."""
    found = {}
    for name, command in commands().items():
        with standalone(folder / name, PORT) as endpoint:
            running = Probe(command, "send", endpoint, "restart", "-", "0")
            for _ in range(50):
                running.said()
            down_s = time.monotonic()
        time.sleep(DOWN_S)
        with standalone(folder / name, PORT):
            away_s = time.monotonic() - down_s
            time.sleep(15)
            lines = running.all_said()
            running.end()
        failed = [line for line in lines if line[0] == "failed"]
        longest_s = max(line[1] for line in lines)
        kinds = ", ".join(sorted({line[2] for line in failed})) or "none"
        after = sum(line[0] == "sent" for line in lines)
        found[name] = (
            f"away for {away_s:.1f} s: {len(failed)} sends failed ({kinds}), {after} succeeded, "
            f"the longest took {longest_s:.1f} s"
        )
    return found


def main(only: list[str]) -> None:
    """`only`: some of the parts by name; none named: all."""
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, Callable[[], object]] = {
            "installation": distributions,
            "import": imports,
            "memory": lambda: _served(Path(folder), memory),
            "sigterm": lambda: _served(Path(folder), stopped),
            "restart": lambda: restarted(Path(folder)),
        }
        found = {name: parts[name]() for name in only or parts}
    print(json.dumps(found, indent=1))


def _served(folder: Path, work: Callable[[str], object]) -> object:
    with standalone(folder) as endpoint:
        return work(endpoint)


if __name__ == "__main__":
    main(sys.argv[1:])
