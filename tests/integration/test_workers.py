"""A cluster whose broker and proxy have several processes each, as an operator starts it."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.processes import Process, Server, free_port, running
from integration.test_cli_signals import until
from integration.test_cores import TOPIC, drain, listens, make_topic_and_group, page, send, stored

from popmq import Client

BROKER_METRICS, PROXY_METRICS = "POPMQ_BROKER_METRICS_PORT", "POPMQ_PROXY_METRICS_PORT"
HEALTH = "POPMQ_BROKER_HEALTH_PORT"


def ports(count: int) -> int:
    """The first of so many, one after the other."""
    found = [free_port()]
    while len(found) < count:
        one = free_port()
        found = [*found, one] if one == found[-1] + 1 else [one]
    return found[0]


@contextmanager
def serving(folder: Path, shards: int, workers: int = 2) -> Iterator[Server]:
    name_port, proxy_port, port = free_port(), free_port(), ports(3)
    nameserver = f"127.0.0.1:{name_port}"
    of_broker = {
        "POPMQ_BROKER_PORT": str(port),
        "POPMQ_BROKER_DATA_DIR": str(folder / "data"),
        "POPMQ_BROKER_NAMESERVERS": nameserver,
        BROKER_METRICS: str(free_port()),
        HEALTH: str(free_port()),
    }
    of_proxy = {
        "POPMQ_PROXY_NAME": "edge",
        "POPMQ_PROXY_PORT": str(proxy_port),
        "POPMQ_PROXY_NAMESERVERS": nameserver,
        PROXY_METRICS: str(free_port()),
    }
    names = {"POPMQ_NAMESERVER_PORT": str(name_port)}
    broker = ["broker", "--shards", str(shards)]
    proxy = ["proxy", "--workers", str(workers)]
    endpoint = f"127.0.0.1:{proxy_port}"
    processes = {
        "nameserver": Process(["nameserver"], names, folder / "nameserver.log", name_port),
        "broker": Process(broker, of_broker, folder / "broker.log", port),
        "proxy": Process(proxy, of_proxy, folder / "proxy.log", proxy_port),
    }
    with running(Server(endpoint, endpoint, processes)) as server:
        yield server


def children(server: Server, name: str) -> list[int]:
    return server.processes[name].tree()[1:]


def builds(port: int, label: str) -> list[str]:
    """What the label says in the rows that each process has once."""
    until(lambda: listens(port))
    return re.findall(rf'^popmq_build_info{{.*{label}="(\d)".*', page(port), re.MULTILINE)


def health(port: int) -> str:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


async def test_each_shard_and_each_worker_does_a_part(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as server:
        make_topic_and_group(server)
        sent = await send(server, connections=4, each=8)
        ends = stored(server)
        assert ends.keys() == {"broker-a", "broker-a-1"}
        assert min(ends.values()) > 0
        assert len(children(server, "broker")) == len(children(server, "proxy")) == 2
        await drain(server, sent)
        status = server.cli("cluster", "status")
        assert isinstance(status, dict)
        assert {one["name"] for one in status["proxies"]} == {"edge-0", "edge-1"}


@pytest.mark.parametrize("name", ["broker", "proxy"])
async def test_one_that_is_killed_comes_back_and_nothing_is_lost(tmp_path: Path, name: str) -> None:
    with serving(tmp_path, 2) as server:
        make_topic_and_group(server)
        sent = await send(server, connections=4, each=4)
        before = children(server, name)
        os.kill(before[1], signal.SIGKILL)
        async with Client(server.endpoint) as client:  # the other one serves meanwhile
            for number in range(16):
                await client.send(TOPIC, f"meanwhile {number}".encode())
                sent.add(f"meanwhile {number}")
        until(lambda: len(children(server, name)) == 2 and children(server, name) != before)
        await drain(server, sent)


async def test_fewer_shards_keep_all_messages(tmp_path: Path) -> None:
    with serving(tmp_path, 3) as server:
        make_topic_and_group(server)
        sent = await send(server, connections=4, each=9)
        three = stored(server)
        assert min(three.values()) > 0
    with serving(tmp_path, 1) as server:
        until(lambda: len(stored(server)) == 3)
        sent |= await send(server, connections=2, each=6)
        assert stored(server) == {**three, "broker-a": three["broker-a"] + 12}
        await drain(server, sent)


def test_one_page_of_metrics_and_one_answer_to_probes(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as server:
        broker, proxy = server.processes["broker"], server.processes["proxy"]
        assert builds(int(broker.env[BROKER_METRICS]), "shard") == ["0", "1"]
        assert builds(int(proxy.env[PROXY_METRICS]), "worker") == ["0", "1"]
        probed = int(broker.env[HEALTH])
        until(lambda: listens(probed))
        assert health(probed) == "SERVING"
        os.kill(children(server, "broker")[0], signal.SIGKILL)
        until(lambda: health(probed) == "NOT_SERVING")
        until(lambda: health(probed) == "SERVING")


@pytest.mark.parametrize("name", ["broker", "proxy"])
def test_a_stop_ends_all_and_none_outlives_its_supervisor(tmp_path: Path, name: str) -> None:
    with serving(tmp_path, 2) as server:
        process = server.processes[name]
        pids = children(server, name)
        assert len(pids) == 2
        assert process.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        process.start()
        until(lambda: len(children(server, name)) == 2)
        pids = children(server, name)
        process.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_shard_that_cannot_start_is_named(tmp_path: Path) -> None:
    shard = tmp_path / "data" / "shards" / "1"
    shard.mkdir(parents=True)
    (shard / "commitlog").write_text("no directory")
    env = {"POPMQ_BROKER_DATA_DIR": str(tmp_path / "data"), "POPMQ_BROKER_PORT": "0"}
    process = Process(["broker"], env, tmp_path / "log", 0)
    process.spawn()
    assert process.running is not None
    assert process.running.wait(60) == 1
    assert "broker-a-1 cannot start: " in process.log.read_text()


@pytest.mark.parametrize(
    ("command", "env", "says"),
    [
        (["broker", "--shards", "0"], {}, "'0' is neither auto nor a number from 1 to 64"),
        (["broker"], {"POPMQ_BROKER_SHARDS": "65"}, "POPMQ_BROKER_SHARDS must be a number"),
        (["broker"], {"POPMQ_BROKER_SHARDS": "0"}, "POPMQ_BROKER_SHARDS must be a number"),
        (["broker", "--shards", "2"], {"POPMQ_BROKER_PORT": "65535"}, "shard 1 has no port"),
        (["proxy"], {"POPMQ_PROXY_WORKERS": "0"}, "POPMQ_PROXY_WORKERS must be a number"),
        (["proxy", "--workers", "2", "--front", "grpcio"], {}, "needs the front http2"),
        (["standalone"], {"POPMQ_PROXY_WORKERS": "2"}, "use --cores N instead"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, command: list[str], env: dict[str, str], says: str
) -> None:
    env = {"POPMQ_BROKER_DATA_DIR": str(tmp_path / "data"), **env}
    if command == ["standalone"]:
        command = [*command, "--data-dir", str(tmp_path / "data"), "--port", "0"]
    process = Process(command, env, tmp_path / "log", 0)
    process.spawn()
    assert process.running is not None
    assert process.running.wait(60) in (1, 2)
    assert says in process.log.read_text()
