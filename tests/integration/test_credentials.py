"""Every request is signed, and what a server denies is told once, with what to do about it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from harness.certificates import self_signed
from harness.signed_server import Denial, SignedServer
from integration.served import make_group, running, serving, until

from popmq import (
    AccessDenied,
    App,
    Client,
    Credentials,
    Forbidden,
    OrderlyConsumer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    ServerUnreachable,
    Tls,
    Unauthorized,
)
from popmq.connection import telemetry
from popmq.sync import SyncClient

ALICE = Credentials("alice", "geheim-ß-密", "token")
USERS = {ALICE.access_key: ALICE.secret_key}
WRONG = Credentials("alice", "wrong")


@asynccontextmanager
async def signed(folder: Path) -> AsyncIterator[SignedServer]:
    """In front of a standalone that has a group g."""
    async with serving(folder) as behind:
        await make_group(behind, "g")
        server = SignedServer(behind, USERS)
        async with server.serving():
            yield server


async def test_every_request_is_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls, streams, heartbeats, renewals from their thread, and what the admin asks."""
    monkeypatch.setattr(telemetry, "HEARTBEAT_S", 0.1)
    async with signed(tmp_path) as server:
        async with Client(server.endpoint, credentials=ALICE) as client:
            await client.admin.create_topic("t")
            await client.producer().send("t", b"1")
            async with client.consumer("t", "g", lease_s=0.4) as consumer:
                (message,) = await consumer.receive()
                held_until_s = message.held_until_s
                await until(lambda: message.held_until_s > held_until_s)
                await message.nack(0.0)
                (message,) = await consumer.receive()
                await message.ack()
            await until(lambda: server.times("Heartbeat") > 0)
        pulled = PullConsumer(server.endpoint, "t", "pulls", credentials=ALICE)
        async with pulled:
            await pulled.poll(wait_s=0.1)
        heard = set(server.heard)
        assert server.refused == []
    assert heard >= {
        "AckRuns",
        "CreateTopic",
        "ExtendRuns",
        "Heartbeat",
        "Join",
        "NackRuns",
        "NotifyClientTermination",
        "Pull",
        "QueryRoute",
        "ReceiveRecords",
        "SendMessage",
        "Telemetry",
    }
    for calls in server.heard.values():
        for headers in calls:
            assert headers["x-mq-session-token"] == "token"
            assert ALICE.secret_key not in str(headers)


async def test_the_sync_client_and_apps_are_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: asyncio.Queue[bytes] = asyncio.Queue()
    async with signed(tmp_path) as server:

        def send() -> None:
            with SyncClient(server.endpoint, credentials=ALICE) as client:
                client.send("t", b"1")

        await asyncio.to_thread(send)
        app = App(server.endpoint, credentials=ALICE)

        @app.handler("t", "g")
        async def handle(message: ReceivedMessage) -> None:
            handled.put_nowait(message.body)

        async with running(app):
            assert await asyncio.wait_for(handled.get(), 20) == b"1"
        monkeypatch.setenv("POPMQ_ACCESS_KEY", ALICE.access_key)
        monkeypatch.setenv("POPMQ_SECRET_KEY", ALICE.secret_key)
        async with Client(server.endpoint) as client:
            await client.send("t", b"2")
        assert server.refused == []


@pytest.mark.parametrize("denial", [Denial.STATUS, Denial.GRPC])
@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        (WRONG, r"refused SendMessage as user 'alice': check signature failed\..*access key"),
        (Credentials("bob", "b"), r"as user 'bob': User:bob is not found\."),
        (False, r"without credentials: username cannot be null\..*POPMQ_ACCESS_KEY"),
    ],
)
async def test_who_is_not_known_is_told_so_at_once(
    tmp_path: Path, denial: Denial, credentials: Any, words: str
) -> None:
    async with signed(tmp_path) as server:
        server.denial = denial
        async with Client(server.endpoint, credentials=credentials) as client:
            with pytest.raises(Unauthorized, match=words) as denied:
                await client.send("t", b"1")
            assert not denied.value.retriable
            assert server.endpoint in str(denied.value)
            assert "wrong" not in str(denied.value)
            assert server.times("SendMessage") == 1, "it was not tried again"
            with pytest.raises(Unauthorized, match="refused QueryRoute"):
                await client.receive("t", "g")
            with pytest.raises(Unauthorized, match="refused ListTopics"):
                await client.admin.list_topics()
            assert server.times("ListTopics") == 1


@pytest.mark.parametrize("denial", [Denial.FORBIDDEN, Denial.GRPC])
async def test_what_a_user_may_not_do_is_told_so_at_once(tmp_path: Path, denial: Denial) -> None:
    async with signed(tmp_path) as server:
        server.denial = denial
        server.denied_calls |= {"SendMessage", "ReceiveRecords", "AckRuns", "DeleteTopic"}
        words = r"as user 'alice': User:alice may not SendMessage\..*operator"
        async with Client(server.endpoint, credentials=ALICE) as client:
            with pytest.raises(Forbidden, match=words):
                await client.send("t", b"1")
            with pytest.raises(Forbidden, match="SendMessage"):
                await client.producer().send("t", b"1")
            assert server.times("SendMessage") == 2
            server.denied_calls.discard("SendMessage")
            await client.send("t", b"1")
            with pytest.raises(Forbidden, match="ReceiveMessage"):
                await client.receive("t", "g")
            assert server.times("ReceiveRecords") == 1
            server.denied_calls.discard("ReceiveRecords")
            (message,) = await client.receive("t", "g")
            with pytest.raises(Forbidden, match="AckRuns"):
                await message.ack()
            assert server.times("AckRuns") == 1
            with pytest.raises(Forbidden, match="DeleteTopic"):
                await client.admin.delete_topic("t")


async def test_a_lease_whose_renewal_is_denied_is_not_renewed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rpc = "ExtendRuns"
    async with signed(tmp_path) as server:
        server.denied_calls.add(rpc)
        client = Client(server.endpoint, credentials=ALICE)
        async with client, client.consumer("t", "g", lease_s=0.3) as consumer:
            await client.send("t", b"1")
            await consumer.receive()
            await until(lambda: "no longer renewed" in caplog.text)
            await asyncio.sleep(0.5)
            assert server.times(rpc) == 1


async def test_settings_that_are_denied_are_told_again_by_the_next_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "HEARTBEAT_S", 0.05)
    async with signed(tmp_path) as server:
        server.users.clear()
        async with Client(server.endpoint, credentials=ALICE) as client:
            with pytest.raises(AccessDenied):
                await client.receive("t", "g")
            await asyncio.sleep(0.5)
            assert (server.times("Telemetry"), server.times("Heartbeat")) == (1, 0)
            server.users |= USERS
            await client.receive("t", "g", wait_s=0)
            assert server.times("Telemetry") == 2
            assert client.receiving.policy("g").max_attempts


async def test_an_app_ends_when_it_is_denied(tmp_path: Path) -> None:
    """Also one that has received something before."""
    async with signed(tmp_path) as server:
        app = App(server.endpoint, credentials=ALICE)

        @app.handler("t", "g")
        async def handle(_: ReceivedMessage) -> None:
            server.denied_calls.add("ReceiveRecords")

        async with Client(server.endpoint, credentials=ALICE) as client:
            await client.send("t", b"1")
        with pytest.raises(Unauthorized, match="ReceiveMessage as user 'alice'"):
            await asyncio.wait_for(app.run(signals=False), 60)


async def test_an_app_that_is_not_known_ends_at_once(tmp_path: Path) -> None:
    async with signed(tmp_path) as server:
        app = App(server.endpoint, credentials=WRONG)
        app.handler("t", "g")(print)
        with pytest.raises(Unauthorized, match="check signature failed"):
            await asyncio.wait_for(app.run(signals=False), 60)


@pytest.mark.parametrize("kind", [PushConsumer, OrderlyConsumer])
async def test_consumers_that_pull_end_when_they_are_denied(tmp_path: Path, kind: Any) -> None:
    async with signed(tmp_path) as server:
        async with Client(server.endpoint, credentials=ALICE) as client:
            await client.send("t", b"1")

        async def handle(_: ReceivedMessage) -> None:
            return

        server.denied_calls.add("Pull")
        async with kind(server.endpoint, "t", "pulls", credentials=ALICE) as consumer:
            with pytest.raises(Unauthorized, match="refused Pull as user 'alice'"):
                await asyncio.wait_for(consumer.run(handle), 60)


@asynccontextmanager
async def asking_for_certificates(folder: Path) -> AsyncIterator[tuple[SignedServer, Tls]]:
    """A server, and what a client needs there."""
    for name in ("server", "client"):
        (folder / name).mkdir()
    server, client = (
        self_signed(folder / "server", "localhost"),
        self_signed(folder / "client", "a"),
    )
    wanted = grpc.ssl_server_credentials(
        [(server.key.read_bytes(), server.certificate.read_bytes())],
        root_certificates=client.certificate.read_bytes(),
        require_client_auth=True,
    )
    tls = Tls.from_files(ca=server.certificate, certificate=client.certificate, key=client.key)
    async with serving(folder) as behind:
        await make_group(behind, "g")
        signed_server = SignedServer(behind, USERS)
        async with signed_server.serving(wanted):
            yield signed_server, tls


async def test_a_client_shows_its_certificate(tmp_path: Path) -> None:
    """Also the thread that renews leases."""
    async with asking_for_certificates(tmp_path) as (server, tls):
        at = f"https://{server.endpoint}"
        client = Client(at, tls=tls, credentials=ALICE)
        async with client, client.consumer("t", "g", lease_s=0.4) as consumer:
            await client.send("t", b"1")
            (message,) = await consumer.receive()
            held_until_s = message.held_until_s
            await until(lambda: message.held_until_s > held_until_s)
            await message.ack()
        nothing_shown = Tls(ca=tls.ca)
        async with Client(at, tls=nothing_shown, request_timeout_s=1) as client:
            with pytest.raises(ServerUnreachable, match=r"may ask for a certificate"):
                await client.send("t", b"1")
