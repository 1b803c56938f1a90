"""Two nameservers, brokers with three replicas each, two proxies, and a register that they share.

Replicas and proxies reach a replica through a forwarder, where their link can be cut.
"""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from chaos.forwarder import Forwarder, Network, Pids
from harness.processes import Process, free_port

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1.admin_pb2_grpc import AdminStub
from popmq_broker.clients.register.open_register import open_register
from popmq_broker.clients.register.register import Seen
from popmq_broker.core.replication import group_record
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_common.errors import RegisterUnreachable
from torture.faults import LEASE_S
from torture.registers import RegisterServers, Server

CLUSTER = "torture"
REPLICAS = 3
ADMIN_S = 20.0
ADMIN_TRIES = 20
LOOK_S = 0.2
START_S = 60.0
BROKER_ENV = {
    "POPMQ_BROKER_CLUSTER": CLUSTER,
    "POPMQ_BROKER_SEGMENT_BYTES": str(1 << 20),
    "POPMQ_BROKER_INDEX_SLOTS": "10000",
    "POPMQ_BROKER_INDEX_ENTRIES": "100000",
    "POPMQ_BROKER_DISK_CLEAN_PERCENT": "100",
    "POPMQ_BROKER_DISK_REFUSE_PERCENT": "100",
    "POPMQ_BROKER_TRANSACTION_IMMUNITY_MS": "2000",
    "POPMQ_BROKER_TRANSACTION_CHECK_INTERVAL_MS": "2000",
    "POPMQ_BROKER_TRANSACTION_CHECKS_MAX": "100000",
    "POPMQ_BROKER_MIN_IN_SYNC": "2",
    "POPMQ_BROKER_PRIMARY_LEASE_MS": str(int(LEASE_S * 1000)),
}


class Cut(NamedTuple):
    """What the one sends to the other is lost."""

    sender: str
    receiver: str


@dataclass
class Cluster:
    folder: Path
    register: RegisterServers
    brokers: dict[str, tuple[str, ...]]
    """Name → its replicas."""
    processes: dict[str, Process] = field(default_factory=dict)
    networks: dict[str, Forwarder] = field(default_factory=dict)
    """In front of each replica, and of the register's servers."""
    metrics_ports: dict[str, int] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    """Ended, or about to be, by a fault."""
    _cuts: set[Cut] = field(default_factory=set)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoints(self) -> str:
        proxies = [self.processes[name].port for name in self.processes if "proxy" in name]
        return ";".join(f"127.0.0.1:{port}" for port in proxies)

    def process(self, name: str) -> Server:
        return self.processes.get(name) or self.register.members[name]

    def broker_of(self, replica: str) -> str:
        return next((one for one in self.brokers if replica in self.brokers[one]), "")

    def data_dir(self, replica: str) -> Path:
        return self.folder / "data" / replica

    # --- what is done to processes ---

    def kill(self, name: str) -> None:
        self.down.add(name)
        self.process(name).kill()

    def stop(self, name: str) -> None:
        """A planned one. Raises `AssertionError` when it does not end well."""
        self.down.add(name)
        code = self.process(name).stop()
        if code:
            raise AssertionError(f"{name} ended with {code} after SIGTERM")

    def start(self, name: str) -> None:
        """Raises `AssertionError` when it does not serve."""
        process = self.process(name)
        process.spawn()
        self._apply_cuts()
        process.wait_ready()
        self.down.discard(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        running = self.process(name).running
        assert running is not None
        os.kill(running.pid, number)

    def dead(self) -> list[str]:
        """Processes that ended, and nobody here did it."""
        every: dict[str, Server] = {**self.register.members, **self.processes}
        return [name for name, one in every.items() if name not in self.down and not one.is_running]

    # --- links ---

    def cut(self, cuts: set[Cut]) -> None:
        with self._changing:
            self._cuts |= cuts
        self._apply_cuts()

    def mend(self, cuts: set[Cut]) -> None:
        with self._changing:
            self._cuts -= cuts
        self._apply_cuts()

    def _apply_cuts(self) -> None:
        """Whoever was started again is as cut off as before."""
        with self._changing:
            pids = {
                name: process.running.pid
                for name, process in self.processes.items()
                if process.running is not None
            }
            for server, forwarder in self.networks.items():
                forwarder.pids.watched = {pid for name, pid in pids.items() if name != server}
                unheard = {one.sender for one in self._cuts if one.receiver == server}
                untold = {one.receiver for one in self._cuts if one.sender == server}
                forwarder.become(
                    Network(
                        unheard=frozenset(pids[one] for one in unheard if one in pids),
                        untold=frozenset(pids[one] for one in untold if one in pids),
                    )
                )

    # --- what the register says ---

    def record(self, broker: str) -> GroupRecord | None:
        """None: there is none, or the register does not answer in time."""
        return asyncio.run(_record(self.register.url, broker))

    def primary(self, broker: str) -> str | None:
        record = self.record(broker)
        return record.primary if record is not None else None

    def all_in_sync(self, broker: str) -> bool:
        record = self.record(broker)
        return record is not None and all(
            record.counts(replica, self._incarnation(replica)) for replica in self.brokers[broker]
        )

    def _incarnation(self, replica: str) -> str:
        path = self.data_dir(replica) / "config" / "replica.json"
        try:
            return str(json.loads(path.read_text())["incarnation"])
        except (OSError, ValueError):  # it has been wiped, or is being written
            return ""

    def until_in_sync(self, broker: str, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not self.all_in_sync(broker):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)
        return True

    # --- calls ---

    def hand_over(self, broker: str) -> None:
        """Until another replica is named primary. Raises `AssertionError`."""
        before = self.primary(broker)
        self.ask("MovePrimary", admin.MovePrimaryRequest(broker=broker))
        deadline = time.monotonic() + ADMIN_S
        while self.primary(broker) in (before, None):
            assert time.monotonic() < deadline, f"{before} is still primary"
            time.sleep(LOOK_S)

    def ask(self, method: str, request: Any) -> Any:
        """The answer to an admin call, of the first proxy that has one. Raises `AssertionError`."""
        return ask(self.endpoints, method, request)


def ask(endpoints: str, method: str, request: Any) -> Any:
    wrong = ""
    for endpoint in endpoints.split(";") * ADMIN_TRIES:
        with grpc.insecure_channel(endpoint) as channel:
            try:
                return getattr(AdminStub(channel), method)(request, timeout=ADMIN_S)
            except grpc.RpcError as failed:
                wrong = str(failed)
                time.sleep(1.0)
    raise AssertionError(wrong)


async def _record(url: str, broker: str) -> GroupRecord | None:
    register = open_register(url, CLUSTER, broker)
    try:
        seen: Seen = await register.read()
    except RegisterUnreachable:
        return None
    finally:
        await register.close()
    return group_record.decode(seen.value, where=broker) if seen.value is not None else None


@contextmanager
def cluster(folder: Path, register: RegisterServers, broker_count: int) -> Iterator[Cluster]:
    """Started, all replicas in sync."""
    brokers = {
        f"broker-{letter}": tuple(f"{letter}{number}" for number in range(1, REPLICAS + 1))
        for letter in "abcdef"[:broker_count]
    }
    made = Cluster(folder, register, brokers, networks=dict(register.networks))
    with ExitStack() as stack:
        nameservers = ",".join(_add_nameserver(made, number) for number in (1, 2))
        for broker, replicas in brokers.items():
            for replica in replicas:
                forwarder = made.networks[replica] = Forwarder(Pids())
                stack.callback(forwarder.close)
                _add_replica(made, broker, replica, nameservers)
        for number in (1, 2):
            _add_proxy(made, number, nameservers)
        stack.callback(end_all, made)
        for name in made.processes:
            made.start(name)
        for broker in brokers:
            if not made.until_in_sync(broker, START_S):
                raise AssertionError(
                    f"the replicas of {broker} are not in sync: {made.record(broker)}"
                )
        yield made


def _add_nameserver(made: Cluster, number: int) -> str:
    """Its address."""
    port, name = free_port(), f"nameserver-{number}"
    env = {"POPMQ_NAMESERVER_PORT": str(port)}
    made.processes[name] = Process(["nameserver"], env, made.folder / f"{name}.log", port)
    return f"127.0.0.1:{port}"


def _add_replica(made: Cluster, broker: str, replica: str, nameservers: str) -> None:
    port, metrics_port = free_port(), free_port()
    made.networks[replica].to_port = port
    made.metrics_ports[replica] = metrics_port
    env = {
        "POPMQ_BROKER_NAME": broker,
        "POPMQ_BROKER_REPLICA": replica,
        "POPMQ_BROKER_REGISTER": made.register.url,
        "POPMQ_BROKER_PORT": str(port),
        "POPMQ_BROKER_METRICS_PORT": str(metrics_port),
        "POPMQ_BROKER_ADVERTISE": f"127.0.0.1:{made.networks[replica].port}",
        "POPMQ_BROKER_DATA_DIR": str(made.data_dir(replica)),
        "POPMQ_BROKER_NAMESERVERS": nameservers,
        **BROKER_ENV,
    }
    made.processes[replica] = Process(["broker"], env, made.folder / f"{replica}.log", port)


def _add_proxy(made: Cluster, number: int, nameservers: str) -> None:
    port, name = free_port(), f"proxy-{number}"
    env = {
        "POPMQ_PROXY_PORT": str(port),
        "POPMQ_PROXY_NAMESERVERS": nameservers,
        "POPMQ_PROXY_INVISIBLE_MS_MIN": "1000",
    }
    made.processes[name] = Process(["proxy"], env, made.folder / f"{name}.log", port)


def end_all(made: Cluster) -> None:
    """kill -9 of whatever still runs."""
    made.mend(set(made._cuts))
    for name, process in made.processes.items():
        if process.running is not None and process.is_running:
            made.down.add(name)
            process.kill()
