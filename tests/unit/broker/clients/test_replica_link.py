"""A primary that cannot be reached: does the follower say why, and what to do?"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from popmq_broker.clients import replica_link
from popmq_common.errors import BrokerUnreachable

Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


@asynccontextmanager
async def listening(meet: Meet) -> AsyncIterator[str]:
    """Its address."""
    writers: list[asyncio.StreamWriter] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        meet(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in writers:
            writer.close()


async def reason(address: str) -> str:
    with pytest.raises(BrokerUnreachable) as found:
        await replica_link.connect("broker-a", address, b"", None)
    return str(found.value.fields["reason"])


async def test_one_that_may_want_tls_is_met_with_the_name_of_the_setting() -> None:
    async with listening(lambda _, writer: writer.close()) as address:
        assert (await reason(address)).endswith("set POPMQ_BROKER_REPLICA_TLS_CA")


async def test_one_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_link, "CONNECT_S", 0.05)
    async with listening(lambda *_: None) as address:
        assert await reason(address) == f"{address}: no answer"
