"""One server per module and front, and a neighbour: a well-behaved client beside the other one."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from itertools import count

import grpc
import pytest
from front.server import FRONTS, Server, serving
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc

SERVED_WITHIN_S = 20.0  # behind 2,000 calls of grpcio on two slow cores; seen there: over 5 s
NUMBER = count(1)


@pytest.fixture(scope="session", autouse=True)
def _many_sockets() -> None:
    """Thousands of connections need as many files, here and in the servers started from here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.fixture(scope="module", params=FRONTS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running
        assert running.process.poll() is None, f"the server died:\n{running.log.read_text()}"


@pytest.fixture
def name() -> str:
    """A topic and group of the test's own."""
    return f"name-{next(NUMBER)}"


@pytest.fixture
async def neighbour(server: Server) -> AsyncIterator[Raw]:
    """Sends a message every 50 ms while the test runs, and once more after it: each must be
    answered OK in time."""
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with grpc.aio.insecure_channel(server.endpoint, options) as channel:
        raw = Raw(service_grpc.MessagingServiceStub(channel), server.endpoint, server.log)
        await served(raw)
        stop = asyncio.Event()
        sending = asyncio.create_task(_keep_sending(raw, stop))
        try:
            yield raw
        finally:
            stop.set()
            await sending
        await served(raw)


async def _keep_sending(raw: Raw, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await served(raw)
        await asyncio.sleep(0.05)


async def served(raw: Raw) -> None:
    async with asyncio.timeout(SERVED_WITHIN_S):
        response = await raw.send("neighbour", b"a message of the neighbour")
    assert response.status.code == v2.OK
