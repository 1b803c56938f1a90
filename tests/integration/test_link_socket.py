"""A proxy on the broker's machine comes by a Unix socket, and by the port where it cannot."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from harness.link import LOG, SEND, at, done, one_by_one
from harness.processes import free_port
from structlog.testing import capture_logs

from popmq_broker.app import server
from popmq_broker.config import BrokerConfig
from popmq_broker.rpc.link import LinkServer
from popmq_common.link import link_socket
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_proxy.clients.brokers import LinkBrokers


@asynccontextmanager
async def broker(port: int = 0, *, unix_socket: bool = True) -> AsyncIterator[LinkServer]:
    made = LinkServer(done, one_by_one(done), name="b", secret=b"", log=LOG)
    await made.start("127.0.0.1", port, unix_socket=unix_socket)
    try:
        yield made
    finally:
        await made.stop()


async def way(brokers: LinkBrokers) -> socket.AddressFamily:
    """How a call that is answered went."""
    assert (await brokers.call("b", SEND, 5_000)).HasField("done")
    family: socket.AddressFamily = (
        brokers._links["b"]._frames.transport.get_extra_info("socket").family
    )
    return family


async def way_to(port: int) -> socket.AddressFamily:
    brokers = at(port)
    try:
        return await way(brokers)
    finally:
        await brokers.close()


@contextmanager
def events() -> Iterator[list[str]]:
    """Those of the log, when it is over."""
    logs.configure("warning")
    try:
        with capture_logs() as lines:
            found: list[str] = []
            yield found
            found += [line["event"] for line in lines]
    finally:
        logs.configure("error")


async def test_a_broker_of_this_machine_is_reached_by_its_socket_also_after_a_restart() -> None:
    async with broker() as first:
        port = first.port
        brokers = at(port)
        assert await way(brokers) == socket.AF_UNIX
    async with broker(port):
        assert await way(brokers) == socket.AF_UNIX
        await brokers.close()


async def test_a_broker_without_one_is_reached_by_its_port() -> None:
    async with broker(unix_socket=False) as made:
        assert await way_to(made.port) == socket.AF_INET


async def test_what_advertises_another_address_is_reached_there() -> None:
    """For example a relay on the same machine."""
    passed = 0

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal passed
        passed += 1
        theirs, ours = await asyncio.open_connection("127.0.0.1", made.port)
        await asyncio.gather(pump(reader, ours), pump(theirs, writer))

    async with broker() as made:
        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        assert await way_to(between.sockets[0].getsockname()[1]) == socket.AF_INET
        between.close()
    assert passed == 1


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@pytest.mark.parametrize("listens", [False, True], ids=["refuses", "full"])
async def test_a_socket_that_takes_no_connection_is_passed_over(listens: bool) -> None:
    async with broker(unix_socket=False) as made:
        with socket.socket(socket.AF_UNIX) as taken, socket.socket(socket.AF_UNIX) as first:
            taken.bind(f"{link_socket.PREFIX}127.0.0.1:{made.port}")
            if listens:
                taken.listen(0)
                first.connect(taken.getsockname())
            assert await way_to(made.port) == socket.AF_INET


async def test_a_name_that_another_user_took_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is free while the broker is away, as its port is; but here the broker is there."""
    monkeypatch.setattr(link_socket, "trusted", lambda user, own: False)
    async with broker(unix_socket=False) as made:
        with socket.socket(socket.AF_UNIX) as liar, events() as found:
            liar.bind(f"{link_socket.PREFIX}127.0.0.1:{made.port}")
            liar.listen()
            assert await way_to(made.port) == socket.AF_INET
    assert "link.socket_not_trusted" in found


@pytest.mark.parametrize(
    ("user", "own", "expected"), [(1000, 1000, True), (0, 1000, True), (1001, 1000, False)]
)
def test_only_root_and_its_own_user_are_trusted(user: int, own: int, expected: bool) -> None:
    assert link_socket.trusted(user, own) is expected


async def test_a_broker_whose_name_is_taken_serves_its_port() -> None:
    port = free_port()
    with socket.socket(socket.AF_UNIX) as taken, events() as found:
        taken.bind(f"{link_socket.PREFIX}127.0.0.1:{port}")
        async with broker(port):
            assert await way_to(port) == socket.AF_INET
    assert "link.no_socket" in found


@pytest.mark.parametrize("configured", [True, False])
async def test_the_setting_of_a_broker(tmp_path: Path, configured: bool) -> None:
    config = BrokerConfig(data_dir=tmp_path, port=0, link_socket=configured, segment_bytes=1 << 20)
    async with server(config, SystemClock()) as serving:
        sockets = await asyncio.to_thread(Path("/proc/net/unix").read_text)
        assert (f"@popmq-link-127.0.0.1:{serving.port}\n" in sockets) is configured
