"""The two client processes, and what the server says of what they did."""

import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import NamedTuple

import grpc

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

ROOT = Path(__file__).resolve().parents[2]
OFFICIAL = "rocketmq-python-client==5.1.2"
SETTLED_S = 20.0
"""How long the server may take to count what was done."""


class Row(NamedTuple):
    """One way of a client for some seconds."""

    messages: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        """Of the client, per message."""
        return self.cpu_s / max(self.messages, 1) * 1e6


class Cheated(Exception):
    """A client counted what the server does not know of, or got what was not sent."""


class Server:
    """Its own figures."""

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.insecure_channel(endpoint)
        self._admin = admin_grpc.AdminStub(self._channel)

    def stored(self, topic: str) -> int:
        request = admin.DescribeTopicRequest(name=topic)
        return sum(queue.max_offset for queue in self._admin.DescribeTopic(request).queues)

    def acked(self, group: str, topic: str) -> int:
        """Stored and not in the group's lag. What comes again is a copy in its retry topic, which
        is of the lag, too. Before the first receive nothing is known, and nothing acked."""
        queues = self._admin.DescribeGroup(admin.DescribeGroupRequest(name=group)).queues
        if all(queue.topic != topic for queue in queues):
            return 0
        return self.stored(topic) - sum(queue.lag for queue in queues)

    def close(self) -> None:
        self._channel.close()


class Side:
    """A client's process, its topic and its group."""

    def __init__(self, name: str, command: list[str], endpoint: str, home: str) -> None:
        self.name = name
        self.topic, self.group = f"topic-{name}", f"group-{name}"
        self._process = subprocess.Popen(
            [*command, endpoint, self.topic, self.group],
            env={**os.environ, "HOME": home, "PYTHONPATH": str(ROOT / "bench")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ways: list[str] = json.loads(self._line())

    def run(self, way: str, seconds: float, server: Server) -> Row:
        """Raises `Cheated`."""
        done = self.known(way, server)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([way, seconds]) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._line())
        deadline = time.monotonic() + SETTLED_S
        while (known := self.known(way, server) - done) < found["messages"]:
            if time.monotonic() > deadline:
                text = f"{found['messages']:,} messages by {way}, {known:,} known to the server"
                raise Cheated(f"{self.name}: {text}")
            time.sleep(0.1)
        if found["wrong"]:
            raise Cheated(f"{self.name}: {found['wrong']:,} bodies by {way} are not what was sent")
        return Row(found["messages"], found["seconds"], found["cpu_s"])

    def known(self, way: str, server: Server) -> int:
        """Stored messages, or acked ones: what the way is about."""
        if way.startswith("send"):
            return server.stored(self.topic)
        return server.acked(self.group, self.topic)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Cheated(f"{self.name}: its process has ended")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SETTLED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def official_python() -> Path:
    """Of the environment that the tests of compatibility use too."""
    folder = ROOT / ".venv-compat-python"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", OFFICIAL], check=True)
    return python


def official(endpoint: str, home: str) -> Side:
    script = str(Path(__file__).with_name("load_official.py"))
    return Side("official", [str(official_python()), script], endpoint, home)


def ours(endpoint: str, home: str) -> Side:
    return Side("popmq", [sys.executable, "-m", "sdk_compare.load_popmq"], endpoint, home)
