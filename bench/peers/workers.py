"""The client processes, as the benchmark sees them."""

import json
import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from compare.failure import BenchFailure
from peers.servers import Commands, PeerServer
from peers.systems import SYSTEMS

BENCH: Final = Path(__file__).resolve().parents[1]
START_S: Final = 60.0
END_S: Final = 10.0


class Worker:
    """A client process. It has loaded its client, and connects when it is asked."""

    def __init__(self, commands: Commands, server: PeerServer, number: int) -> None:
        self._name = f"client {number} of {server.name}"
        client = SYSTEMS[server.name].client
        command = [str(commands.client_python), "-m", "peers.clients", client, server.name]
        self._process = subprocess.Popen(
            commands.on_cores([*command, str(server.port), str(number)]),
            env={**os.environ, "PYTHONPATH": str(BENCH)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.answer(START_S)

    def ask(self, call: str, **arguments: object) -> None:
        """`answer` has the result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([call, arguments]).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self, within_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], within_s)
        if not ready:
            raise BenchFailure(f"{self._name} has not answered for {within_s:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise BenchFailure(f"{self._name} has ended; its error is above")
        found: dict[str, Any] = json.loads(line)
        if "failed" in found:
            raise BenchFailure(f"{self._name}: {found['failed']}")
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def workers(commands: Commands, server: PeerServer, count: int) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = []
        for number in range(count):
            started.append(Worker(commands, server, number))
            stack.callback(started[-1].close)
        yield started


def all_do(
    everyone: Sequence[Worker], within_s: float, call: str, **arguments: object
) -> list[dict[str, Any]]:
    """The results of one call in all client processes at once."""
    for worker in everyone:
        worker.ask(call, **arguments)
    return [worker.answer(within_s) for worker in everyone]
