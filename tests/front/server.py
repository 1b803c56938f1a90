"""A popmq standalone behind one front, as a process seen from outside: memory, RPCs under way."""

import asyncio
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.processes import POPMQ, START_S, STOP_S, free_port

FRONTS = ["grpcio", "http2"]


def command(front: str, data_dir: Path) -> list[str]:
    line = [POPMQ, "standalone", "--front", front, "--port", "0", "--no-console", "--json"]
    return [*line, "--data-dir", str(data_dir)]


@dataclass
class Server:
    front: str
    process: "subprocess.Popen[bytes]"
    endpoint: str
    metrics: str
    log: Path

    def rss_mib(self) -> float:
        """Resident memory of the process and all that it started, a front's process too."""
        return sum(memory_kib(pid, "VmRSS") for pid in _family(self.process.pid)) / 1024

    def own_mib(self) -> float:
        """The same without the pages of files that it has mapped."""
        return sum(memory_kib(pid, "RssAnon") for pid in _family(self.process.pid)) / 1024

    async def rpcs_now(self, method: str) -> int:
        """Handlers of the method that are running."""
        return await self.figure(f'popmq_rpcs_in_progress{{method="{method}"}}')

    async def figure(self, name: str) -> int:
        """Of /metrics; 0: it is not there."""
        page = await asyncio.to_thread(_page, self.metrics)
        found = re.search(rf"^{re.escape(name)} (\S+)", page, re.MULTILINE)
        return int(float(found.group(1))) if found else 0

    async def until_rpcs(self, method: str, count: int, timeout_s: float = 5.0) -> None:
        """Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            while await self.rpcs_now(method) != count:  # noqa: ASYNC110 - it can only be asked
                await asyncio.sleep(0.02)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, timeout_s: float) -> int:
        """Raises `subprocess.TimeoutExpired`."""
        return self.process.wait(timeout_s)


@contextmanager
def serving(
    front: str, folder: Path, *options: str, settings: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """`options` of popmq standalone, and variables."""
    log = folder / "server.log"
    environ = {name: value for name, value in os.environ.items() if "POPMQ" not in name}
    line = [*command(front, folder / "data"), *options]
    metrics_port = free_port()
    environ |= {"POPMQ_PROXY_METRICS_PORT": str(metrics_port), **(settings or {})}
    with open(log, "ab") as out:
        process = subprocess.Popen(line, env=environ, stdout=out, stderr=out)
    try:
        endpoint = _endpoint(process, log)
        yield Server(front, process, endpoint, f"http://127.0.0.1:{metrics_port}/metrics", log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            finally:
                process.kill()


def _endpoint(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """The server prints it when it serves."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        for line in log.read_text().splitlines(keepends=True):
            if line.startswith('{"endpoint"') and line.endswith("\n"):
                return str(json.loads(line)["endpoint"])
        time.sleep(0.02)  # a file does not tell when it grows
    process.kill()
    raise AssertionError(f"the server did not start:\n{log.read_text()}")


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as page:
        text: str = page.read().decode()
        return text


def _family(pid: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def memory_kib(pid: int, what: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(rf"^{what}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found.group(1)) if found else 0
