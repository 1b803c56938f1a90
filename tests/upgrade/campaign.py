"""Each service of a cluster is replaced by another version while messages flow, and replaced back.

Brokers first, then proxies, then the nameserver: a newer broker knows what an older proxy asks for.
Back in the reverse order. Two loads run all the time, one with the SDK of each version.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.processes import POPMQ, Process, Server, cluster

from upgrade.wheels import Installed

ORDER: Final = ("broker-a", "broker-b", "proxy-1", "proxy-2", "nameserver")
TESTS: Final = Path(__file__).resolve().parents[1]
STATUS_S: Final = 60.0
DRAIN_S: Final = 600.0
SHOWN_MAX: Final = 5
SECRET: Final = {
    f"POPMQ_{service}_LINK_SECRET": "known to all services of all versions"
    for service in ("NAMESERVER", "BROKER", "PROXY")
}


@dataclass
class Load:
    """A process that sends and handles with the SDK of one version."""

    sdk: Installed
    file: Path
    running: "subprocess.Popen[bytes]"

    def stop(self) -> int:
        self.running.terminate()
        return self.running.wait(DRAIN_S)

    def verdict(self) -> "Verdict":
        found = Verdict(self.sdk.version)
        sent: set[str] = set()
        acked: set[str] = set()
        for line in self.file.read_text().splitlines():
            word, _, what = line.partition(" ")
            if word == "sent":
                sent.add(what)
            elif word == "came":
                found.came[what] += 1
                found.again_after_ack += what in acked
            elif word == "acked":
                acked.add(what)
            else:
                found.errors[f"{word}: {what}"] += 1
        found.sent, found.lost = len(sent), len(sent - found.came.keys())
        return found


@dataclass
class Verdict:
    sdk: str
    sent: int = 0
    lost: int = 0
    again_after_ack: int = 0
    """Came once more although its ack had been answered OK."""
    came: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """What the SDK raised."""

    @property
    def again(self) -> int:
        """Came more than once, for whatever reason."""
        return sum(count - 1 for count in self.came.values())

    def row(self) -> str:
        return (
            f"| {self.sdk} | {self.sent} | {self.errors.total()} | {self.lost} "
            f"| {self.again_after_ack} | {self.again} |"
        )

    def wrong(self) -> list[str]:
        found = [f"{count} times {what}" for what, count in self.errors.most_common(SHOWN_MAX)]
        if self.lost:
            found.append(f"{self.lost} lost")
        if self.again_after_ack:
            found.append(f"{self.again_after_ack} came again after their ack was answered OK")
        if not self.sent:
            found.append("nothing was sent")
        return [f"SDK {self.sdk}: {what}" for what in found]


@contextmanager
def load(server: Server, sdk: Installed, name: str, folder: Path) -> Iterator[Load]:
    endpoints = ";".join(
        f"127.0.0.1:{process.port}"
        for service, process in server.processes.items()
        if service.startswith("proxy")
    )
    file = folder / f"load-{name}"
    file.touch()
    env = {**os.environ, "PYTHONPATH": f"{sdk.folder}{os.pathsep}{TESTS}"}
    arguments = [endpoints, f"upgraded-{name}", f"upgrading-{name}", str(file)]
    command = [sys.executable, "-m", "upgrade.load", *arguments]
    with open(folder / f"load-{name}.log", "wb") as log:
        running = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)
    try:
        yield Load(sdk, file, running)
    finally:
        running.kill()
        running.wait()


@dataclass
class Campaign:
    server: Server
    gap_s: float
    wrong: list[str] = field(default_factory=list)

    def replace(self, name: str, version: Installed) -> None:
        process = self.server.processes[name]
        began_s = time.monotonic()
        code = process.stop()
        if code:
            self.wrong.append(f"{name} ended with {code} after SIGTERM")
        become(process, version)
        process.start()
        took_s = time.monotonic() - began_s
        time.sleep(self.gap_s)  # load in the mixed state
        print(
            f"{name} is {version.version} now, replaced in {took_s:.1f} s; {self.seen()}",
            flush=True,
        )

    def seen(self) -> str:
        """What `popmq cluster status` of the newer version says in between."""
        command = [POPMQ, "cluster", "status", "--json", "--endpoint", self.server.endpoint]
        done = subprocess.run(command, capture_output=True, timeout=STATUS_S, check=False)
        if not done.stdout:
            return "its proxy is too old for popmq cluster status"
        told: dict[str, Any] = json.loads(done.stdout)
        services = [*told["proxies"], *(one.get("figures") or {} for one in told["brokers"])]
        versions = Counter(one.get("version") or "older" for one in services)
        return ", ".join(f"{count} x {version}" for version, count in sorted(versions.items()))


def become(process: Process, version: Installed) -> None:
    process.env = {**process.env, **version.env}


def campaign(folder: Path, old: Installed, new: Installed, *, gap_s: float) -> list[str]:
    """What went wrong."""
    with cluster(folder, SECRET, brokers=2, proxies=2, started_as=old.env) as server:
        for name in ("old", "new"):
            server.cli("topic", "create", f"upgraded-{name}", "--queues", "4")
            server.cli("group", "create", f"upgrading-{name}", "--from", "first")
        with load(server, old, "old", folder) as first, load(server, new, "new", folder) as second:
            work = Campaign(server, gap_s)
            time.sleep(gap_s)
            for name in ORDER:
                work.replace(name, new)
            for name in reversed(ORDER):
                work.replace(name, old)
            for one in (first, second):
                if one.stop():
                    work.wrong.append(f"the load of SDK {one.sdk.version} failed; {one.file}.log")
            verdicts = [first.verdict(), second.verdict()]
    print("\n| SDK | sent OK | errors | lost | again after an ack answered OK | came again |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for verdict in verdicts:
        print(verdict.row(), flush=True)
        work.wrong += verdict.wrong()
    return work.wrong
