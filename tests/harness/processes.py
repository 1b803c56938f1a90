"""PopMQ as real processes: what a user would start, and what a test may kill."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from popmq_cli.shell.output import EXIT_UNREACHABLE

START_S = 100.0
STOP_S = 30.0
CLI_TRIES = 5
POPMQ = str(Path(sys.executable).with_name("popmq"))


PORTS = range(10_000, 32_000)
"""Below those that the system gives to clients."""
FIRST = random.SystemRandom().randrange(len(PORTS))
"""Processes that test side by side begin elsewhere."""
_in_turn: Iterator[int] = cycle([*PORTS[FIRST:], *PORTS[:FIRST]])


def free_port() -> int:
    """One that was not used for long: the client of a test before may still try to come back to a
    server that is gone, and must not find another one there."""
    while True:
        port = next(_in_turn)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@dataclass
class Process:
    """One service; its output goes to a file that a failure shows."""

    command: list[str]
    env: Mapping[str, str]
    log: Path
    port: int
    running: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        environ = {name: value for name, value in os.environ.items() if "POPMQ" not in name}
        with open(self.log, "ab") as out:
            self.running = subprocess.Popen(
                [POPMQ, *self.command], env={**environ, **self.env}, stdout=out, stderr=out
            )

    def wait_ready(self) -> None:
        running = self.running
        assert running is not None
        self.wait_listening(lambda: running.poll() is not None)

    def wait_listening(self, has_ended: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if has_ended():
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.01)  # nothing else tells that a process listens
        raise AssertionError(f"{' '.join(self.command)} did not start:\n{self.log.read_text()}")

    @property
    def is_running(self) -> bool:
        return self.running is not None and self.running.poll() is None

    def kill(self) -> None:
        """kill -9: no warning, no clean-up."""
        assert self.running is not None
        self.running.send_signal(signal.SIGKILL)
        self.running.wait(STOP_S)

    def tree(self) -> list[int]:
        """Its process and their children, and so on."""
        assert self.running is not None
        found = [self.running.pid]
        for pid in found:
            for listed in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in listed.read_text().split()]
        return found

    def kill_tree(self) -> None:
        """kill -9 of all of them, as when a container is killed."""
        pids = self.tree()
        self.kill()
        for pid in pids[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> int:
        assert self.running is not None
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGTERM)
        return self.running.wait(STOP_S)


@dataclass
class Server:
    """Something a client can connect to, and the processes it is made of."""

    endpoint: str
    tls_endpoint: str
    processes: dict[str, Process] = field(default_factory=dict)
    other_endpoint: str = ""
    """The last proxy's; the same as `endpoint` where there is one."""

    def __post_init__(self) -> None:
        self.other_endpoint = self.other_endpoint or self.endpoint

    def cli(self, *arguments: str) -> object:
        """Run a popmq command against this server; its JSON. Services that have just been started
        may need a moment to find each other where the machine is busy."""
        command = [POPMQ, *arguments, "--endpoint", self.endpoint, "--json"]
        for _ in range(CLI_TRIES):
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
            if done.returncode != EXIT_UNREACHABLE:
                break
            time.sleep(1)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)


def add_broker(server: Server, folder: Path, name: str, like: str = "broker-a") -> None:
    """One more, started, which has no topics yet."""
    port = free_port()
    place = {"NAME": name, "PORT": str(port), "DATA_DIR": str(folder / name)}
    env = {f"POPMQ_BROKER_{key}": value for key, value in place.items()}
    env = {**server.processes[like].env, **env}
    server.processes[name] = Process(["broker"], env, folder / f"{name}.log", port)
    server.processes[name].start()


@contextmanager
def running(server: Server) -> Iterator[Server]:
    try:
        for process in server.processes.values():
            process.start()
        yield server
    finally:
        for process in reversed(server.processes.values()):
            if process.running is not None:
                process.stop()


def _ports(front: str) -> tuple[int, int]:
    """(port, port for TLS); only grpcio needs two."""
    port = free_port()
    return port, free_port() if front == "grpcio" else port


@contextmanager
def standalone(
    folder: Path, env: Mapping[str, str] | None = None, *, front: str = "http2", cores: int = 1
) -> Iterator[Server]:
    port, tls_port = _ports(front)
    command = ["standalone", "--front", front, "--port", str(port), "--tls-port", str(tls_port)]
    command += ["--data-dir", str(folder / "data"), "--no-console", "--json"]
    command += ["--cores", str(cores)]
    process = Process(command, env or {}, folder / "standalone.log", port)
    server = Server(f"127.0.0.1:{port}", f"127.0.0.1:{tls_port}", {"standalone": process})
    with running(server):
        yield server


@contextmanager
def cluster(
    folder: Path,
    env: Mapping[str, str] | None = None,
    *,
    brokers: int = 2,
    proxies: int = 2,
    front: str = "http2",
    started_as: Mapping[str, str] | None = None,
    own: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[Server]:
    """A nameserver, brokers and proxies, each a process; clients use the first proxy.

    `started_as`: variables of every process, like the PYTHONPATH of another version; `own`: those
    of one, by its name: nameserver, broker-a, proxy-1.
    """
    env = env or {}
    name_port = free_port()
    nameserver = f"127.0.0.1:{name_port}"
    processes = {
        "nameserver": Process(
            ["nameserver"],
            {
                "POPMQ_NAMESERVER_PORT": str(name_port),
                **{key: value for key, value in env.items() if key.startswith("POPMQ_NAMESERVER_")},
            },
            folder / "nameserver.log",
            name_port,
        )
    }
    for i in range(brokers):
        name = f"broker-{'abcdef'[i]}"
        port = free_port()
        settings = {
            "POPMQ_BROKER_NAME": name,
            "POPMQ_BROKER_PORT": str(port),
            "POPMQ_BROKER_DATA_DIR": str(folder / name),
            "POPMQ_BROKER_NAMESERVERS": nameserver,
            "POPMQ_BROKER_CREATE_GROUPS": "true",
            **{key: value for key, value in env.items() if key.startswith("POPMQ_BROKER_")},
        }
        processes[name] = Process(["broker"], settings, folder / f"{name}.log", port)
    ports = [_ports(front) for _ in range(proxies)]
    for i, (port, tls_port) in enumerate(ports):
        settings = {
            "POPMQ_PROXY_FRONT": front,
            "POPMQ_PROXY_PORT": str(port),
            "POPMQ_PROXY_TLS_PORT": str(tls_port),
            "POPMQ_PROXY_NAMESERVERS": nameserver,
            "POPMQ_PROXY_CREATE_TOPICS": "true",
            **{key: value for key, value in env.items() if key.startswith("POPMQ_PROXY_")},
        }
        processes[f"proxy-{i + 1}"] = Process(
            ["proxy"], settings, folder / f"proxy-{i + 1}.log", port
        )
    for name, process in processes.items():
        process.env = {**process.env, **(started_as or {}), **(own or {}).get(name, {})}
    port, tls_port = ports[0]
    endpoint, other = f"127.0.0.1:{port}", f"127.0.0.1:{ports[-1][0]}"
    with running(Server(endpoint, f"127.0.0.1:{tls_port}", processes, other)) as server:
        yield server
