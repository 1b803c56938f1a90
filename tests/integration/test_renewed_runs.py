"""Leases that the SDK renews: many by one request where the server can do that, else one by one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from integration.served import make_group, send_all, serving, until

from popmq import Client, Message, ReceivedMessage
from popmq_broker.engine.broker import Broker
from popmq_common.errors import NotServed
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.front import rpcs
from popmq_proxy.rpc.messages.ack import AckHandler

COUNT = 20
LEASE_S = 1.0


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The requests of renewals and acks that a proxy got."""
    found: dict[str, list[Any]] = {}
    for name in ("ack_runs", "extend_runs", "change_invisible_duration"):
        found[name] = []
        serve = getattr(AckHandler, name)

        async def noted(
            handler: AckHandler,
            ctx: Any,
            request: Any,
            *,
            of: list[Any] = found[name],
            serve: Any = serve,
        ) -> Any:
            of.append(request)
            return await serve(handler, ctx, request)

        monkeypatch.setattr(AckHandler, name, noted)
    return found


@asynccontextmanager
async def holding(folder: Path, count: int) -> AsyncIterator[tuple[Client, list[ReceivedMessage]]]:
    """A client, and messages that it has received and renews."""
    async with serving(folder, invisible_ms_min=0) as endpoint, Client(endpoint) as client:
        await make_group(endpoint, "g")
        await send_all(client, "t", [Message(body=b"1") for _ in range(count)])
        async with client.consumer("t", "g", lease_s=LEASE_S, held_max=count) as consumer:
            messages: list[ReceivedMessage] = []
            while len(messages) < count:
                messages += await consumer.receive(count)
            yield client, messages


async def hold(folder: Path) -> list[bool]:
    """Messages held for three times their lease, then acked; whether each kept its handle."""
    async with holding(folder, COUNT) as (client, messages):
        handles = [message.receipt_handle for message in messages]
        await asyncio.sleep(3 * LEASE_S)
        kept = [
            message.receipt_handle == handle
            for message, handle in zip(messages, handles, strict=True)
        ]
        await client.ack(*messages)
        assert await client.receive("t", "g", wait_s=0) == []
        return kept


async def test_messages_that_came_together_are_renewed_together(
    tmp_path: Path, asked: dict[str, list[Any]]
) -> None:
    assert all(await hold(tmp_path))
    renewed = [sum(len(run.queue_offsets) for run in one.runs) for one in asked["extend_runs"]]
    assert sum(renewed) >= 4 * COUNT  # at half of each lease
    assert sum(renewed) >= 5 * len(renewed)
    assert asked["change_invisible_duration"] == []


async def test_a_server_that_knows_the_public_protocol_alone_renews_each(
    tmp_path: Path, asked: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(rpcs._CONSUMER_METHODS, "ExtendRuns")
    assert not any(await hold(tmp_path))
    assert len(asked["change_invisible_duration"]) >= 3 * COUNT


async def test_a_broker_that_knows_no_renewal_by_runs_renews_each(
    tmp_path: Path, asked: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is newer, and tells so."""
    handle = Broker.handle

    async def older(broker: Broker, call: link.Call) -> link.Reply:
        if call.WhichOneof("body") == "extend":
            raise NotServed(what="The call 'extend'")
        return await handle(broker, call)

    monkeypatch.setattr(Broker, "handle", older)
    assert not any(await hold(tmp_path))
    assert len(asked["change_invisible_duration"]) >= 3 * COUNT


async def test_what_is_acked_meanwhile_is_not_missed(tmp_path: Path) -> None:
    """Others of its run are held on."""
    async with holding(tmp_path, COUNT) as (client, messages):
        for message in messages:
            await message.ack()
            await asyncio.sleep(3 * LEASE_S / COUNT)
        assert await client.receive("t", "g", wait_s=2 * LEASE_S) == []


async def test_a_lease_that_the_server_has_ended_is_no_longer_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with holding(tmp_path, 2) as (client, _):
        await client.admin.reset_group("g", "t", to="last")
        await until(lambda: caplog.text.count("is no longer held") == 2)
