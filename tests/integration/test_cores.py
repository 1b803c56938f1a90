"""A standalone on several cores, as a user starts it: nothing is lost when one of its processes
dies or their number changes, and it looks like one server."""

import os
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError, insecure_channel
from harness.processes import Process, Server, free_port, standalone
from integration.conftest import Raw
from integration.test_cli_signals import until

from apache.rocketmq.v2.definition_pb2 import Code
from apache.rocketmq.v2.service_pb2_grpc import MessagingServiceStub
from popmq import Client

WITHIN_S = 60.0
TOPIC = "orders"


async def send(server: Server, connections: int, each: int) -> set[str]:
    """Bodies that were answered OK. All connections are open at a time, as those of as many
    processes would be; one that breaks is made anew."""
    async with AsyncExitStack() as opened:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [
            await opened.enter_async_context(insecure_channel(server.endpoint, options=options))
            for _ in range(connections)
        ]
        sent = set()
        for channel in channels:
            raw = Raw(MessagingServiceStub(channel), server.endpoint, Path())  # type: ignore[no-untyped-call, unused-ignore]
            for _ in range(each):
                body = f"{time.monotonic_ns()}"
                await stored_by(raw, body)
                sent.add(body)
    return sent


def make_topic_and_group(server: Server) -> None:
    server.cli("topic", "create", TOPIC)
    server.cli("group", "create", "g", "--from", "first")


async def stored_by(raw: Raw, body: str) -> None:
    """Sent again where a connection was handed to a process that had just been killed."""
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            answer = await raw.send(TOPIC, body.encode())
        except AioRpcError as broken:
            if broken.code() is not StatusCode.UNAVAILABLE or time.monotonic() > end:
                raise
        else:
            assert answer.status.code == Code.OK
            return


async def drain(server: Server, wanted: set[str]) -> None:
    """Until all of `wanted` have come and were acked."""
    end = time.monotonic() + WITHIN_S
    async with Client(server.endpoint) as client:
        missing = set(wanted)
        while missing:
            assert time.monotonic() < end, missing
            for message in await client.receive(TOPIC, "g", wait_s=1.0):
                await message.ack()
                missing.discard(message.body.decode())


def workers(server: Server) -> list[int]:
    return server.processes["standalone"].tree()[1:]


def stored(server: Server) -> dict[str, int]:
    """Broker → how many messages it ever took."""
    found = server.cli("topic", "show", TOPIC)
    assert isinstance(found, dict)
    ends: dict[str, int] = defaultdict(int)
    for queue in found["queues"]:
        ends[queue["broker"]] += queue["maxOffset"]
    return ends


@contextmanager
def serving(folder: Path, cores: int) -> Iterator[Server]:
    env = {"POPMQ_PROXY_CREATE_TOPICS": "true"}
    with standalone(folder, env, cores=cores) as server:
        yield server


async def test_each_process_takes_messages_and_a_consumer_gets_all(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as server:
        make_topic_and_group(server)
        assert len(workers(server)) == 2
        sent = await send(server, connections=6, each=3)
        assert stored(server).keys() == {"broker-a", "broker-a-1"}
        assert min(stored(server).values()) > 0
        await drain(server, sent)


async def test_a_worker_that_is_killed_comes_back_with_all_that_it_answered(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as server:
        make_topic_and_group(server)
        sent = await send(server, connections=6, each=3)
        before = workers(server)
        os.kill(before[1], signal.SIGKILL)
        sent |= await send(server, connections=4, each=3)  # the other one serves meanwhile
        until(lambda: len(workers(server)) == 2 and workers(server) != before)
        sent |= await send(server, connections=4, each=3)
        await drain(server, sent)


async def test_more_cores_and_fewer_keep_all_messages(tmp_path: Path) -> None:
    with serving(tmp_path, 1) as server:
        make_topic_and_group(server)
        sent = await send(server, connections=1, each=6)
    with serving(tmp_path, 3) as server:
        sent |= await send(server, connections=9, each=3)
        three = stored(server)
        assert three.keys() == {"broker-a", "broker-a-1", "broker-a-2"}
        assert min(three.values()) > 0
    with serving(tmp_path, 1) as server:
        until(lambda: len(workers(server)) == 3)  # those that are too many deliver what they have
        sent |= await send(server, connections=4, each=3)
        assert stored(server) == {**three, "broker-a": three["broker-a"] + 12}
        await drain(server, sent)
    with serving(tmp_path, 2) as server:
        await send(server, connections=6, each=3)
        two = stored(server)
        assert two["broker-a-1"] > three["broker-a-1"]
        assert two["broker-a-2"] == three["broker-a-2"]


async def test_a_message_group_keeps_its_order_when_cores_are_added(tmp_path: Path) -> None:
    async def some(server: Server, first: int) -> None:
        async with Client(server.endpoint) as client:
            for number in range(first, first + 5):
                for group in ("a", "b", "c", "d"):
                    body = f"{group} {number}".encode()
                    await client.send("fifo", body, message_group=group)

    with serving(tmp_path, 1) as server:
        server.cli("topic", "create", "fifo", "--type", "FIFO")
        server.cli("group", "create", "ordered", "--fifo", "--from", "first")
        await some(server, 0)
    with serving(tmp_path, 2) as server:
        await some(server, 5)
        seen: dict[str, list[int]] = defaultdict(list)
        end = time.monotonic() + WITHIN_S
        async with Client(server.endpoint) as client:
            while sum(map(len, seen.values())) < 40:
                assert time.monotonic() < end, seen
                for message in await client.receive("fifo", "ordered", wait_s=1.0):
                    group, number = message.body.decode().split()
                    seen[group].append(int(number))
                    await message.ack()
        assert seen == {group: list(range(10)) for group in "abcd"}


def test_one_page_of_metrics_and_one_doctor(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as server:
        process = server.processes["standalone"]
        process.stop()
        port = free_port()
        process.command += ["--metrics-port", str(port)]
        process.start()
        until(lambda: listens(port))
        rows = [line for line in page(port).splitlines() if line.startswith("popmq_build_info")]
        assert len(rows) == 2
        assert 'shard="0"' in rows[0]
        assert 'shard="1"' in rows[1]
        assert server.cli("doctor")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def page(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_no_worker_outlives_its_supervisor(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as server:
        until(lambda: len(workers(server)) == 2)
        pids = workers(server)
        server.processes["standalone"].kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_stop_ends_all(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as server:
        until(lambda: len(workers(server)) == 2)
        pids = workers(server)
        assert server.processes["standalone"].stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        for folder in (tmp_path / "data", tmp_path / "data" / "shards" / "1"):
            assert not (folder / "abort").exists()


def test_a_shard_that_cannot_start_is_named(tmp_path: Path) -> None:
    shard = tmp_path / "data" / "shards" / "1"
    shard.mkdir(parents=True)
    (shard / "commitlog").write_text("no directory")
    process = Process(
        ["standalone", "--cores", "2", "--port", "0", "--data-dir", str(tmp_path / "data")],
        {},
        tmp_path / "log",
        0,
    )
    process.spawn()
    assert process.running is not None
    assert process.running.wait(WITHIN_S) == 1
    assert "broker-a-1 cannot start: " in process.log.read_text()


def test_only_the_default_front_runs_on_several_cores(tmp_path: Path) -> None:
    refused = pytest.raises(AssertionError, match="needs the front http2")
    with refused, standalone(tmp_path, front="grpcio", cores=2):
        pass
