"""The bounds of the default front, as they are without configuration, over a real connection."""

from collections.abc import Iterator

import pytest
from front.h2_client import connect
from front.payloads import send, stored
from front.server import Server, serving
from front.wire import frame, headers
from h2.settings import SettingCodes

from popmq_common.units import KiB
from popmq_proxy.app import limits
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.http2.budgets.limits import Http2Limits

CALM = 11
STREAMS = 1_024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("http2", tmp_path_factory.mktemp("bounds")) as running:
        yield running


def test_the_defaults() -> None:
    assert Http2Limits() == limits(ProxyConfig())
    assert Http2Limits().header_bytes_max == 16 * KiB
    assert Http2Limits().streams_first == STREAMS


async def test_they_are_told_to_each_client(server: Server) -> None:
    async with connect(server.endpoint) as connection:
        told = connection.h2.remote_settings
        assert told[SettingCodes.MAX_CONCURRENT_STREAMS] == STREAMS
        assert told[SettingCodes.MAX_HEADER_LIST_SIZE] == 16 * KiB


@pytest.mark.parametrize(("size", "served"), [(15 * KiB, True), (17 * KiB, False)])
@pytest.mark.parametrize("calls_before", [0, 20])
async def test_headers_of_16_kib_are_read(
    server: Server, size: int, served: bool, calls_before: int
) -> None:
    request = frame(send("bounds", b"x"))
    async with connect(server.endpoint) as connection:
        for _ in range(calls_before):
            assert stored(await connection.call("SendMessage", request))
        stream = await connection.call(headers("SendMessage", x_own="x" * size), request)
        assert stored(stream) is served
        assert connection.goaway_code == (None if served else CALM)
