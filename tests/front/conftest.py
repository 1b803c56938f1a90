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

SERVED_WITHIN_S = 5.0  # beside 2,000 calls on a machine that has two slow cores
BEHIND_FLOOD_S = {"grpcio": 20.0}
"""Where calls are served in their order, behind 2,000 of them; seen on slow cores: over 5 s."""
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
        stop, within_s = asyncio.Event(), BEHIND_FLOOD_S.get(server.front, SERVED_WITHIN_S)
        sending = asyncio.create_task(_keep_sending(raw, stop, within_s))
        try:
            yield raw
        finally:
            stop.set()
            await sending
        await served(raw, within_s)


async def _keep_sending(raw: Raw, stop: asyncio.Event, within_s: float) -> None:
    while not stop.is_set():
        await served(raw, within_s)
        await asyncio.sleep(0.05)


async def served(raw: Raw, within_s: float = SERVED_WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        response = await raw.send("neighbour", b"a message of the neighbour")
    assert response.status.code == v2.OK
