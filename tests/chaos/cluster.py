"""Two nameservers, two brokers behind forwarders, two proxies, and three kinds of clients."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from harness.processes import Process, free_port
from harness.small_disk import SmallDisk, small_disk

from chaos import load
from chaos.forwarder import Forwarder, Network, Pids
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1.admin_pb2_grpc import AdminStub

MiB = 1 << 20
TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
KINDS = ("sdk", "python", "go")
QUEUES = 4
DISK_BYTES = 256 * MiB
RESERVE_BYTES = 8 * MiB
STOP_S = 60.0
ADMIN_S = 20.0
ADMIN_TRIES = 5
BROKER_ENV = {
    "POPMQ_BROKER_SEGMENT_BYTES": str(4 * MiB),
    "POPMQ_BROKER_INDEX_SLOTS": "10000",
    "POPMQ_BROKER_INDEX_ENTRIES": "100000",
    "POPMQ_BROKER_DISK_RESERVE_BYTES": str(RESERVE_BYTES),
    "POPMQ_BROKER_DISK_CLEAN_PERCENT": "100",
    "POPMQ_BROKER_DISK_REFUSE_PERCENT": "100",
}
PROXY_ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "1000"}


@dataclass
class Load:
    """One client process, and where it writes what it was told."""

    kind: str
    command: list[str]
    env: dict[str, str]
    folder: Path
    running: "subprocess.Popen[bytes] | None" = None

    @property
    def events(self) -> Path:
        return self.folder / f"{self.kind}.events"

    def start(self) -> None:
        self.events.touch()
        with open(self.folder / f"{self.kind}.log", "ab") as out:
            self.running = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.env},
            )

    def check(self) -> None:
        assert self.running is not None
        if self.running.poll() is not None:
            text = (self.folder / f"{self.kind}.log").read_text()[-4_000:]
            raise AssertionError(f"the load of {self.kind} ended:\n{text}")

    def drain(self) -> None:
        """Send nothing more."""
        self.check()
        assert self.running is not None
        assert self.running.stdin is not None
        self.running.stdin.write(b"drain\n")
        self.running.stdin.flush()

    def end(self) -> None:
        assert self.running is not None
        assert self.running.stdin is not None
        self.running.stdin.close()
        try:
            self.running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait(STOP_S)


@dataclass
class Chaos:
    """What faults are done to."""

    folder: Path
    disk: SmallDisk
    """Of broker-b."""
    processes: dict[str, Process]
    networks: dict[str, Forwarder]
    """In front of each broker."""
    data_dirs: dict[str, Path]
    """Of each broker."""
    loads: list[Load] = field(default_factory=list)

    @property
    def endpoints(self) -> str:
        return ";".join(
            f"127.0.0.1:{process.port}"
            for name, process in self.processes.items()
            if name.startswith("proxy")
        )

    def pid(self, name: str) -> int:
        running = self.processes[name].running
        assert running is not None
        return running.pid

    def kill(self, name: str) -> None:
        self.processes[name].kill()

    def stop(self, name: str) -> None:
        code = self.processes[name].stop()
        if code:
            raise AssertionError(f"{name} ended with {code} after SIGTERM")

    def start(self, name: str) -> None:
        self.processes[name].start()
        self.watch_pids()

    def pause(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGCONT)

    def watch_pids(self) -> None:
        for forwarder in self.networks.values():
            forwarder.pids.watched = {
                process.running.pid
                for name, process in self.processes.items()
                if name.startswith("proxy") and process.running is not None
            }

    def ask(self, method: str, request: Any) -> Any:
        """The answer to an admin call, of the first proxy that has one. Raises `AssertionError`."""
        wrong = ""
        for name in ("proxy-1", "proxy-2") * ADMIN_TRIES:
            endpoint = f"127.0.0.1:{self.processes[name].port}"
            with grpc.insecure_channel(endpoint) as channel:
                try:
                    return getattr(AdminStub(channel), method)(request, timeout=ADMIN_S)
                except grpc.RpcError as failed:
                    wrong = str(failed)
                    time.sleep(1.0)
        raise AssertionError(wrong)

    def make_topics(self) -> None:
        """Those of all kinds of clients, at every broker; again for a new one."""
        for kind in KINDS:
            for name, message_type in zip(topics(kind), ("NORMAL", "FIFO"), strict=True):
                topic = admin.Topic(name=name, queues=QUEUES, message_type=message_type)
                self.ask("CreateTopic", admin.CreateTopicRequest(topic=topic))

    def make_groups(self) -> None:
        for kind in KINDS:
            for name, fifo in zip(topics(kind), (False, True), strict=True):
                group = admin.Group(name=name, fifo=fifo, max_attempts=1_000, consume_from="FIRST")
                self.ask("CreateGroup", admin.CreateGroupRequest(group=group))

    def permit(self, broker: str, permission: str) -> None:
        request = admin.SetPermissionRequest(broker=broker, permission=permission)
        self.ask("SetPermission", request)

    def add_broker(self, name: str) -> None:
        nameservers = ",".join(
            f"127.0.0.1:{process.port}"
            for one, process in self.processes.items()
            if one.startswith("nameserver")
        )
        self.data_dirs[name] = self.folder / name
        made = _broker(name, self.folder, self.data_dirs[name], nameservers, "")
        self.processes[name] = made
        made.start()


def topics(kind: str) -> tuple[str, str]:
    """(free, in order); the groups have the same names."""
    return f"chaos-{kind}", f"chaos-{kind}-fifo"


def _broker(name: str, folder: Path, data: Path, nameservers: str, advertise: str) -> Process:
    port = free_port()
    env = {
        "POPMQ_BROKER_NAME": name,
        "POPMQ_BROKER_PORT": str(port),
        "POPMQ_BROKER_DATA_DIR": str(data),
        "POPMQ_BROKER_NAMESERVERS": nameservers,
        "POPMQ_BROKER_CREATE_GROUPS": "true",
        **({"POPMQ_BROKER_ADVERTISE": advertise} if advertise else {}),
        **BROKER_ENV,
    }
    return Process(["broker"], env, folder / f"{name}.log", port)


@contextmanager
def chaos_cluster(folder: Path) -> Iterator[Chaos]:
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "disk", DISK_BYTES))
        processes: dict[str, Process] = {}
        networks: dict[str, Forwarder] = {}
        for i in (1, 2):
            port = free_port()
            env = {"POPMQ_NAMESERVER_PORT": str(port)}
            name = f"nameserver-{i}"
            processes[name] = Process(["nameserver"], env, folder / f"{name}.log", port)
        nameservers = ",".join(f"127.0.0.1:{process.port}" for process in processes.values())
        data_dirs = {"broker-a": folder / "broker-a", "broker-b": disk.path / "broker-b"}
        for name, data in data_dirs.items():
            forwarder = networks[name] = Forwarder(Pids())
            stack.callback(forwarder.close)
            made = _broker(name, folder, data, nameservers, f"127.0.0.1:{forwarder.port}")
            forwarder.to_port = made.port
            processes[name] = made
        for i in (1, 2):
            port = free_port()
            env = {
                "POPMQ_PROXY_PORT": str(port),
                "POPMQ_PROXY_NAMESERVERS": nameservers,
                "POPMQ_PROXY_CREATE_TOPICS": "true",
                **PROXY_ENV,
            }
            processes[f"proxy-{i}"] = Process(["proxy"], env, folder / f"proxy-{i}.log", port)
        found = Chaos(folder, disk, processes, networks, data_dirs)
        stack.callback(_stop_all, found)
        for process in processes.values():
            process.start()
        found.watch_pids()
        found.make_topics()
        found.make_groups()
        yield found


def _stop_all(cluster: Chaos) -> None:
    for forwarder in cluster.networks.values():
        forwarder.become(Network())
    for process in reversed(cluster.processes.values()):
        if process.running is not None and process.running.poll() is None:
            process.running.send_signal(signal.SIGCONT)
            process.stop()


@contextmanager
def loaded(cluster: Chaos, python: Path, go: Path) -> Iterator[None]:
    """All three kinds of clients at work. `python`: of the official client's environment; `go`: the
    driver, built."""
    folder, endpoints = cluster.folder, cluster.endpoints
    home = {"HOME": str(folder)}  # official clients write logs there
    for kind in KINDS:
        free, fifo = topics(kind)
        made = Load(kind, [], {}, folder)
        names = [endpoints, free, fifo, free, fifo, str(made.events)]
        if kind == "sdk":
            made.command = [sys.executable, "-m", "chaos.sdk_client", *names]
            made.env = {"PYTHONPATH": str(TESTS)}
        elif kind == "python":
            made.command = [str(python), str(TESTS / "chaos" / "official_python.py"), *names]
            made.env = home
        else:
            amounts = (
                load.GAP_S, load.FIFO_GAP_S, load.FIFO_LINES, load.INVISIBLE_S, load.POLL_S,
                load.RECEIVE_MAX, load.PAUSE_S,
            )  # fmt: skip
            places = [endpoints, free, free, fifo, fifo, str(made.events)]
            made.command = [str(go), "chaos", *places, *map(str, amounts)]
            made.env = {**home, "rocketmq.client.enableSsl": "false"}
        cluster.loads.append(made)
    try:
        for made in cluster.loads:
            made.start()
        yield
    finally:
        for made in cluster.loads:
            if made.running is not None:
                made.end()
