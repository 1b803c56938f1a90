"""Processes as /proc shows them: who descends from whom, memory; start them, end them."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from compare.failure import BenchFailure

PROC = Path("/proc")
LISTEN_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LOG_LINES_SHOWN = 15
LOG_COLUMNS_SHOWN = 200


@dataclass(frozen=True)
class Memory:
    """Resident memory, MiB; `total_mib` has the pages of mapped files too."""

    anonymous_mib: float
    total_mib: float


def parents(proc: Path = PROC) -> dict[int, int]:
    """PID → PID of its parent, of all processes."""
    found = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name), proc)):
            found[int(folder.name)] = int(fields[1])
    return found


def family(root: int, parent_of: Mapping[int, int]) -> list[int]:
    """`root` and what descends from it, parents first."""
    found = [root]
    for pid in found:
        found += sorted(child for child, parent in parent_of.items() if parent == pid)
    return found


def memory(pids: Iterable[int], proc: Path = PROC) -> Memory:
    """Sum over the processes; one that is gone counts nothing."""
    sums = {"RssAnon": 0, "VmRSS": 0}
    for pid in pids:
        try:
            lines = (proc / str(pid) / "status").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(":")
            if name in sums:
                sums[name] += int(value.split()[0])
    return Memory(sums["RssAnon"] / 1024, sums["VmRSS"] / 1024)


def _stat(pid: int, proc: Path = PROC) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; the name before them may hold blanks."""
    try:
        return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _start_tick(pid: int) -> str | None:
    """When a living process began; with its PID this identifies it."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else fields[19]


def launch(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    """Start a process out of reach of the terminal's Ctrl-C; returns its PID."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process.pid


def end(roots: Sequence[int]) -> None:
    """SIGTERM to each root, the last first; what is left of their families is killed."""
    parent_of = parents()
    everyone = [pid for root in roots for pid in family(root, parent_of)]
    began = {pid: tick for pid in everyone if (tick := _start_tick(pid)) is not None}
    for root in reversed(roots):
        _signal(root, began, signal.SIGTERM)
        _wait_gone([root], began, STOP_TIMEOUT_S)
    _wait_gone(everyone, began, 2.0)
    for pid in everyone:
        _signal(pid, began, signal.SIGKILL)
    _wait_gone(everyone, began, 5.0)
    for root in roots:
        _reap(root)


def _signal(pid: int, began: Mapping[int, str], number: signal.Signals) -> None:
    if pid in began and _start_tick(pid) == began[pid]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def signal_each(pids: Iterable[int], number: signal.Signals) -> None:
    """Those that are gone are passed over."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_gone(pids: Sequence[int], began: Mapping[int, str], timeout_s: float) -> None:
    limit = time.monotonic() + timeout_s
    while time.monotonic() < limit:
        if all(_start_tick(pid) != began.get(pid, "") for pid in pids):
            return
        time.sleep(0.05)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def alive(pid: int) -> bool:
    return _start_tick(pid) is not None


def listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_listening(name: str, pid: int, port: int, log: Path) -> None:
    """Until something listens on the port; a failure shows the end of the log."""
    limit = time.monotonic() + LISTEN_TIMEOUT_S
    while not listens(port):
        if not alive(pid):
            raise BenchFailure(f"{name} ended while starting:\n{tail(log)}")
        if time.monotonic() > limit:
            raise BenchFailure(
                f"{name} does not listen on {port} after {LISTEN_TIMEOUT_S:.0f} s:\n{tail(log)}"
            )
        time.sleep(0.02)


def tail(log: Path) -> str:
    """The last lines of a log, indented."""
    if not log.is_file():
        return "  (no log)"
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "\n".join(f"  {line[:LOG_COLUMNS_SHOWN]}" for line in lines) or "  (empty log)"
