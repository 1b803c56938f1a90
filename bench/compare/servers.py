"""Starts, pauses and stops a system under test, and knows its processes.

All listen on 127.0.0.1, RocketMQ on its usual ports, each PopMQ on ports of its own. Processes are
started one after the other, each when the one before listens, for both sides alike.
"""

import json
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from compare import processes
from compare.failure import BenchFailure
from compare.systems import COMPILED, EARLIER, REPLICATED, SIGNED, SYSTEMS, Case
from compare.workloads import GROUP_PREFIX, QUEUES, TOPIC_PREFIX, group, topic

ADMIN_TIMEOUT_S = 240
OPERATOR = "operator"
USER = "load"
USER_SECRET = "secret-of-the-benchmark"
REGISTER_TIMEOUT_S = 30.0
"""A broker that listens may not have registered yet; so long topics are tried again."""


@dataclass(frozen=True)
class Ports:
    nameserver: int
    broker: int
    proxy: int


REPLICAS = ("broker", "broker-2", "broker-3")
"""Processes of a broker that has replicas; one without has the first alone."""

ROCKETMQ_PORTS = Ports(9876, 10911, 8081)
"""As anchor.sh has them."""


def popmq_ports(place: int) -> Ports:
    """`place`: of the system among those that run together."""
    return Ports(*(21_000 + 10 * place + i for i in range(3)))


def free_ports() -> Ports:
    """Those of 127.0.0.1 that nobody listens on now."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(3)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return Ports(*(int(probe.getsockname()[1]) for probe in probes))


@dataclass(frozen=True)
class Tools:
    """Where the programs are, and the cores they may use."""

    popmq: Path
    compiled: Path
    """`popmq` with modules that mypyc has compiled."""
    loadgen: Path
    anchor: Path
    cores: str | None
    """As taskset takes it, such as 0,1; None: all."""
    earlier: Path | None = None
    """`popmq` of another commit."""

    def pinned(self, command: Sequence[str]) -> list[str]:
        return ["taskset", "-c", self.cores, *command] if self.cores else list(command)


class Server(ABC):
    """A system under test with its files in `folder`."""

    def __init__(self, tools: Tools, flush: str, folder: Path, ports: Ports) -> None:
        self.tools = tools
        self.flush = flush
        self.folder = folder
        self.ports = ports
        self.endpoint = f"127.0.0.1:{ports.proxy}"
        self.user = ""
        """Who signs the load's calls; empty: they are not signed."""

    def client_environment(self) -> dict[str, str]:
        """Of the load generator."""
        return {**os.environ, "LOADGEN_SECRET": USER_SECRET} if self.user else dict(os.environ)

    @abstractmethod
    def start(self) -> None:
        """Returns when the port for clients listens."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what is running, if anything is; may be called at any time."""

    @abstractmethod
    def roots(self) -> dict[str, int]:
        """Name → PID of the processes that were started, without their children."""

    @abstractmethod
    def make(self, topics_count: int, group_indexes: Sequence[int]) -> None:
        """Topics 0 … topics_count-1, NORMAL with 8 queues; and the groups of these indexes."""

    def processes(self) -> dict[str, list[int]]:
        """Name → PIDs, children with their root."""
        parent_of = processes.parents()
        return {name: processes.family(root, parent_of) for name, root in self.roots().items()}

    def pause(self) -> None:
        """Until `resume` it takes no CPU."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """What was paused goes on; may be called at any time."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pids in self.processes().values():
            processes.signal_each(pids, number)

    def pids_flag(self) -> str:
        """name=PID,… for loadgen."""
        return ",".join(f"{name}={pid}" for name, pids in self.processes().items() for pid in pids)


class Popmq(Server):
    """PopMQ: nameserver, broker and proxy, or one process."""

    def __init__(
        self,
        tools: Tools,
        flush: str,
        folder: Path,
        ports: Ports,
        front: str,
        alone: bool,
        signed: bool = False,
        replicas: int = 1,
    ) -> None:
        super().__init__(tools, flush, folder, ports)
        self.front = front
        self.alone = alone
        self.user = USER if signed else ""
        self._replicas = {name: free_ports().broker for name in REPLICAS[1:replicas]}
        """Beside the one that listens where a broker does: name → port."""
        self._pids: dict[str, int] = {}

    def start(self) -> None:
        for name, port, words in self.commands():
            log = self.folder / f"{name}.log"
            command = self.tools.pinned([str(self.tools.popmq), *words])
            environment = {**self.environment(), **self.own(name)}
            self._pids[name] = processes.launch(command, environment, log)
            processes.wait_listening(f"popmq {name}", self._pids[name], port, log)

    def commands(self) -> list[tuple[str, int, list[str]]]:
        """(name, port it listens on, words after `popmq`) in order of start."""
        front, ports = ["--front", self.front], self.ports
        if self.alone:
            words = ["standalone", "--port", str(ports.proxy), "--flush", self.flush, *front]
            return [("standalone", ports.proxy, [*words, "--data-dir", str(self.folder / "data")])]
        return [
            ("nameserver", ports.nameserver, ["nameserver"]),
            ("broker", ports.broker, ["broker"]),
            *((name, port, ["broker"]) for name, port in self._replicas.items()),
            ("proxy", ports.proxy, ["proxy", *front]),
        ]

    def environment(self) -> dict[str, str]:
        found = popmq_environment(os.environ, self.flush, self.folder / "data", self.ports)
        return {**found, **self._access()} if self.user else found

    def _access(self) -> dict[str, str]:
        user = json.dumps({"username": OPERATOR, "password": USER_SECRET})
        return {
            "POPMQ_PROXY_AUTHENTICATION": "true",
            "POPMQ_PROXY_AUTHORIZATION": "true",
            "POPMQ_PROXY_INIT_USER_FILE": str(self._kept("first-user.json", user)),
        }

    def _kept(self, name: str, text: str) -> Path:
        """A file of the server's folder that nobody else reads."""
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def own(self, name: str) -> Mapping[str, str]:
        """Variables of this process alone."""
        if not self._replicas or name not in REPLICAS:
            return {}
        own = {
            "POPMQ_BROKER_REPLICA": name,
            "POPMQ_BROKER_REGISTER": f"file://{self.folder / 'register'}",
            "POPMQ_BROKER_MIN_IN_SYNC": "2",
        }
        if name in self._replicas:
            own["POPMQ_BROKER_PORT"] = str(self._replicas[name])
            own["POPMQ_BROKER_DATA_DIR"] = str(self.folder / name)
        return own

    def stop(self) -> None:
        processes.end(list(self._pids.values()))
        self._pids.clear()

    def roots(self) -> dict[str, int]:
        return dict(self._pids)

    def make(self, topics_count: int, group_indexes: Sequence[int]) -> None:
        kind = ["--type", "normal", "--queues", str(QUEUES)]
        patiently(lambda: self._cli("topic", "create", topic(0), *kind))
        if self.user:
            self._make_user()
        for index in range(1, topics_count):
            self._cli("topic", "create", topic(index), *kind)
        for index in group_indexes:
            self._cli("group", "create", group(index))

    def _make_user(self) -> None:
        """Who may send and receive, by entries as teams have them."""
        secret = self._kept("user.secret", USER_SECRET)
        self._cli("user", "create", self.user, "--new-secret-file", str(secret))
        for resource, actions in (
            (f"Topic:{TOPIC_PREFIX}*", "Pub,Sub"),
            (f"Group:{GROUP_PREFIX}*", "Sub"),
        ):
            entry = ["--resource", resource, "--action", actions, "--decision", "allow"]
            self._cli("acl", "create", self.user, *entry)

    def _cli(self, *words: str) -> None:
        command = [str(self.tools.popmq), *words, "--endpoint", self.endpoint]
        signed = {"POPMQ_ACCESS_KEY": OPERATOR, "POPMQ_SECRET_KEY": USER_SECRET}
        admin(command, {**os.environ, **signed} if self.user else os.environ)


class Rocketmq(Server):
    """Apache RocketMQ by anchor.sh; `mode` is cluster, local or controller."""

    def __init__(self, tools: Tools, flush: str, folder: Path, mode: str) -> None:
        super().__init__(tools, flush, folder, ROCKETMQ_PORTS)
        self.mode = mode

    def start(self) -> None:
        try:
            self._anchor("up", self.flush, self.mode)
        except BenchFailure as failure:
            logs = [self.folder / f"{name}.out" for name in ("namesrv", *REPLICAS, "proxy")]
            started = [log for log in logs if log.is_file()]
            ends = [f"{log.name}:\n{processes.tail(log)}" for log in started[-1:]]
            raise BenchFailure("\n".join([str(failure), *ends])) from failure

    def stop(self) -> None:
        self._anchor("down")

    def roots(self) -> dict[str, int]:
        names = {"namesrv": "nameserver", "broker": "broker", "proxy": "proxy"}
        names |= {name: name for name in REPLICAS[1:]}
        found = {}
        for file_name, name in names.items():
            file = self.folder / f"{file_name}.pid"
            if file.is_file():
                found[name] = int(file.read_text())
        return found

    def make(self, topics_count: int, group_indexes: Sequence[int]) -> None:
        patiently(lambda: self._anchor("topics", TOPIC_PREFIX, str(topics_count), str(QUEUES)))
        for index in group_indexes:
            self._anchor("group", group(index))

    def _anchor(self, *words: str) -> None:
        command = self.tools.pinned([str(self.tools.anchor), *words])
        admin(command, {**os.environ, "ANCHOR_HOME": str(self.folder)})


def popmq_environment(
    base: Mapping[str, str], flush: str, data: Path, ports: Ports
) -> dict[str, str]:
    """`base` without its own POPMQ_ variables, and the benchmark's."""
    nameserver = f"127.0.0.1:{ports.nameserver}"
    kept = {name: value for name, value in base.items() if not name.startswith("POPMQ_")}
    return {
        **kept,
        "POPMQ_NAMESERVER_PORT": str(ports.nameserver),
        "POPMQ_NAMESERVER_LOG_LEVEL": "warning",
        "POPMQ_BROKER_DATA_DIR": str(data),
        "POPMQ_BROKER_FLUSH": flush,
        "POPMQ_BROKER_PORT": str(ports.broker),
        "POPMQ_BROKER_NAMESERVERS": nameserver,
        "POPMQ_BROKER_CREATE_GROUPS": "true",
        "POPMQ_BROKER_LOG_LEVEL": "warning",
        "POPMQ_PROXY_PORT": str(ports.proxy),
        "POPMQ_PROXY_NAMESERVERS": nameserver,
        "POPMQ_PROXY_CREATE_TOPICS": "true",
        "POPMQ_PROXY_LOG_LEVEL": "warning",
    }


def admin(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command to its end; a failure shows what it printed."""
    done = subprocess.run(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=ADMIN_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        output = done.stdout.decode(errors="replace").strip()
        raise BenchFailure(f"{' '.join(command)} ended with {done.returncode}:\n{output}")


def patiently(attempt: Callable[[], None]) -> None:
    """Tries again while it fails, for as long as a broker may take to register."""
    limit = time.monotonic() + REGISTER_TIMEOUT_S
    while True:
        try:
            return attempt()
        except BenchFailure:
            if time.monotonic() > limit:
                raise
        time.sleep(0.5)


def server_for(case: Case, tools: Tools, folder: Path, place: int) -> Server:
    """The server of a case, not started; `place`: among those that run together."""
    if SYSTEMS[case.system].jvm:
        modes = {"rocketmq-local": "local", f"rocketmq{REPLICATED}": "controller"}
        mode = modes.get(case.system, "cluster")
        return Rocketmq(tools, case.flush, folder, mode)
    signed, replicas = SIGNED in case.system, 3 if REPLICATED in case.system else 1
    front, alone = {
        "popmq": ("http2", False),
        "popmq-grpcio": ("grpcio", False),
        "popmq-standalone": ("http2", True),
        EARLIER: ("http2", False),
    }[case.system.removesuffix(COMPILED).removesuffix(SIGNED).removesuffix(REPLICATED)]
    if case.system.endswith(COMPILED):
        tools = replace(tools, popmq=tools.compiled)
    if case.system == EARLIER:
        if tools.earlier is None:
            raise BenchFailure(f"{EARLIER} is for make bench-record")
        tools = replace(tools, popmq=tools.earlier)
    return Popmq(tools, case.flush, folder, popmq_ports(place), front, alone, signed, replicas)


def check_free(ports: Ports) -> None:
    for port in (ports.nameserver, ports.broker, ports.proxy):
        if processes.listens(port):
            raise BenchFailure(
                f"something listens on 127.0.0.1:{port} already;"
                f" find it with: ss -ltnp | grep {port}"
            )
