"""Starts, pauses and stops the servers; each has a fresh folder and ports that were free."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compare import processes
from compare.processes import PROC, Memory
from compare.servers import Ports, free_ports
from extremes.usage import TICKS_PER_S, cpu_s

RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin")
"""Of Debian's package; the commands in PATH change to another user."""


@dataclass(frozen=True)
class Commands:
    """Where the programs are; `cores` as of taskset, None: all."""

    popmq: Path
    compiled: Path
    redis: Path
    nats: Path
    rabbitmq: Path
    client_python: Path
    cores: str | None

    def on_cores(self, command: Sequence[str]) -> list[str]:
        return [*(["taskset", "-c", self.cores] if self.cores else []), *command]


@dataclass(frozen=True)
class Launch:
    """A process of a server, and the port that tells that it listens."""

    name: str
    command: Sequence[str]
    port: int
    environment: Mapping[str, str]


class PeerServer:
    """One system, with the processes of its server."""

    def __init__(self, name: str, commands: Commands, folder: Path) -> None:
        self.name = name
        self._commands, self._folder = commands, folder
        self._ports = free_ports()
        self._roots: list[int] = []

    @property
    def port(self) -> int:
        """For clients."""
        return self._ports.proxy

    def start(self) -> None:
        """Until it listens."""
        self._folder.mkdir(parents=True)
        for launch in LAUNCHES[self.name](self._commands, self._folder, self._ports):
            log = self._folder / f"{launch.name}.log"
            environment = {**_environment(), **launch.environment}
            command = self._commands.on_cores(launch.command)
            self._roots.append(processes.launch(command, environment, log))
            processes.wait_listening(launch.name, self._roots[-1], launch.port, log)

    def pids(self) -> list[int]:
        parent_of = processes.parents()
        return [pid for root in self._roots for pid in processes.family(root, parent_of)]

    def cpu_s(self) -> float:
        return cpu_s(self.pids())

    def memory(self) -> Memory:
        return processes.memory(self.pids())

    def pause(self) -> None:
        processes.signal_each(self.pids(), signal.SIGSTOP)

    def resume(self) -> None:
        processes.signal_each(self.pids(), signal.SIGCONT)

    def stop(self) -> None:
        self.resume()
        processes.end(self._roots)
        self._roots = []


def machine_cpu_s() -> float:
    """What all processes of the machine have used, with interrupts."""
    fields = (PROC / "stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _wait, irq, softirq = map(int, fields[1:8])
    return (user + nice + system + irq + softirq) / TICKS_PER_S


def _environment() -> dict[str, str]:
    """Without what would change the interpreter of a server."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _popmq(program: Path, folder: Path, ports: Ports) -> list[Launch]:
    command = [str(program), "standalone", "--flush", "sync", "--no-console"]
    command += ["--port", str(ports.proxy), "--data-dir", str(folder / "data")]
    return [Launch("popmq", command, ports.proxy, {})]


def _redis(program: Path, folder: Path, ports: Ports) -> list[Launch]:
    command = [str(program), "--port", str(ports.proxy), "--bind", "127.0.0.1"]
    command += ["--dir", str(folder), "--save", "", "--appendonly", "yes"]
    command += ["--appendfsync", "always"]
    return [Launch("redis", command, ports.proxy, {})]


def _nats(program: Path, folder: Path, ports: Ports) -> list[Launch]:
    settings = folder / "nats.conf"
    settings.write_text(
        f'host: "127.0.0.1"\nport: {ports.proxy}\n'
        f'jetstream {{ store_dir: "{folder / "data"}", sync_interval: always }}\n'
    )
    return [Launch("nats", [str(program), "-c", str(settings)], ports.proxy, {})]


def _rabbitmq(program: Path, folder: Path, ports: Ports) -> list[Launch]:
    """With a port mapper of its own, so that nothing is left running."""
    (folder / "plugins").write_text("[].\n")
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(ports.broker),
        "RABBITMQ_NODENAME": f"bench{ports.proxy}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(ports.proxy),
        "RABBITMQ_DIST_PORT": str(ports.nameserver),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    mapper = ["epmd", "-port", str(ports.broker), "-address", "127.0.0.1"]
    return [
        Launch("epmd", mapper, ports.broker, environment),
        Launch("rabbitmq", [str(program)], ports.proxy, environment),
    ]


LAUNCHES: Final[dict[str, Callable[[Commands, Path, Ports], list[Launch]]]] = {
    "popmq": lambda commands, *where: _popmq(commands.popmq, *where),
    "popmq-compiled": lambda commands, *where: _popmq(commands.compiled, *where),
    "redis": lambda commands, *where: _redis(commands.redis, *where),
    "nats": lambda commands, *where: _nats(commands.nats, *where),
    "rabbitmq": lambda commands, *where: _rabbitmq(commands.rabbitmq, *where),
    "rabbitmq-classic": lambda commands, *where: _rabbitmq(commands.rabbitmq, *where),
}
