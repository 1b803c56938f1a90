"""The register that replicas share, and its servers, which faults may strike too."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.forwarder import Forwarder, Pids
from harness.etcd_server import STOP_S, EtcdMember, etcd

KINDS = ("file", "etcd")
MEMBERS = 3


class Server(Protocol):
    """A process that a fault may strike; harness.processes.Process is one."""

    log: Path

    @property
    def running(self) -> "subprocess.Popen[bytes] | None": ...
    @property
    def is_running(self) -> bool: ...
    def spawn(self) -> None: ...
    def wait_ready(self) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> int: ...


class EtcdServer:
    def __init__(self, member: EtcdMember) -> None:
        self._member = member
        self.log = member.log

    @property
    def running(self) -> "subprocess.Popen[bytes] | None":
        return self._member.process

    @property
    def is_running(self) -> bool:
        return self.running is not None and self.running.poll() is None

    def spawn(self) -> None:
        self._member.spawn()

    def wait_ready(self) -> None:
        self._member.wait_healthy()

    def kill(self) -> None:
        self._member.kill()

    def stop(self) -> int:
        assert self.running is not None
        self.running.terminate()
        return self.running.wait(STOP_S)


@dataclass(frozen=True)
class RegisterServers:
    url: str
    members: Mapping[str, Server] = field(default_factory=dict)
    networks: Mapping[str, Forwarder] = field(default_factory=dict)
    """In front of each member."""


@contextmanager
def register_servers(kind: str, folder: Path) -> Iterator[RegisterServers]:
    if kind == "file":
        folder.mkdir(parents=True, exist_ok=True)
        yield RegisterServers(f"file://{folder}")
        return
    with etcd(folder, MEMBERS) as members, ExitStack() as stack:
        networks: dict[str, Forwarder] = {}
        for member in members:
            forwarder = networks[member.name] = Forwarder(Pids())
            stack.callback(forwarder.close)
            forwarder.to_port = member.port
        url = f"etcd://{','.join(f'127.0.0.1:{one.port}' for one in networks.values())}"
        servers = {member.name: EtcdServer(member) for member in members}
        yield RegisterServers(url, servers, networks)
