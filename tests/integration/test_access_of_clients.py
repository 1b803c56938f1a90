"""PopMQ's client and commands at a server that asks who sends."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from integration.served import serving, until

from popmq import App, Client, Credentials, ReceivedMessage, Unauthorized
from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.main import main

ROOT = Credentials("root", "root-secret")
ALICE = Credentials("alice", "alice-secret")
MAY = [("Topic:orders", ["Pub", "Sub"]), ("Group:billing", ["Sub"])]


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    """With a topic, a group, and a user who may send and receive there."""
    first = tmp_path / "first.json"
    first.write_text(json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}))
    first.chmod(0o600)
    switches: dict[str, Any] = {
        "authentication": True,
        "authorization": True,
        "init_user_file": first,
    }
    async with (
        serving(tmp_path, **switches) as endpoint,
        Client(endpoint, credentials=ROOT) as root,
    ):
        await until_known(root)
        await root.admin.create_topic("orders")
        await root.admin.create_group("billing", start="first")
        stub, signed = root.connection.admin, root.connection.metadata
        user = admin.CreateUserRequest(username=ALICE.access_key, secret=ALICE.secret_key)
        await stub.CreateUser(user, metadata=signed())
        entries = [admin.AclEntry(resource=one, actions=may, decision="Allow") for one, may in MAY]
        acl = admin.PutAclRequest(subject="User:alice", entries=entries)
        await stub.PutAcl(acl, metadata=signed())
        yield endpoint


async def until_known(root: Client) -> None:
    """The first user is made when the broker has told."""
    async with asyncio.timeout(20):
        while True:
            try:
                await root.admin.list_topics()
            except Unauthorized:
                await asyncio.sleep(0.02)
            else:
                return


async def test_who_may_sends_receives_and_renews(endpoint: str) -> None:
    client = Client(endpoint, credentials=ALICE)
    async with client, client.consumer("orders", "billing", lease_s=1.5) as consumer:
        await client.producer().send("orders", b"1")
        (message,) = await consumer.receive()
        held_until_s = message.held_until_s
        await until(lambda: message.held_until_s > held_until_s)
        await message.nack(0.0)
        (message,) = await consumer.receive()
        await message.ack()


async def test_who_may_not_is_told_by_whom_and_why(endpoint: str) -> None:
    wrong = Credentials("alice", "another")
    async with Client(endpoint, credentials=wrong) as client:
        with pytest.raises(Unauthorized, match=r"refused SendMessage as user 'alice': The sender"):
            await client.send("orders", b"1")
        with pytest.raises(Unauthorized, match="refused ListTopics as user 'alice'"):
            await client.admin.list_topics()
    async with Client(endpoint) as client:
        with pytest.raises(Unauthorized, match=r"not signed.*POPMQ_ACCESS_KEY"):
            await client.send("orders", b"1")
    async with Client(endpoint, credentials=ALICE) as client:
        with pytest.raises(Unauthorized, match="User:alice has no permission to access Topic:pay"):
            await client.send("pay", b"1")
        with pytest.raises(Unauthorized, match="Group:other"):
            await client.receive("orders", "other", wait_s=0)


async def test_an_app_ends_when_it_may_not(endpoint: str) -> None:
    app = App(endpoint, credentials=ALICE)
    app.handler("orders", "other")(print)
    with pytest.raises(Unauthorized, match="Group:other"):
        await asyncio.wait_for(app.run(signals=False), 60)


async def test_an_app_of_a_user(endpoint: str) -> None:
    came: asyncio.Queue[bytes] = asyncio.Queue()
    app = App(endpoint, credentials=ALICE)

    @app.handler("orders", "billing")
    async def handle(message: ReceivedMessage) -> None:
        came.put_nowait(message.body)

    async with app:
        await app.client.send("orders", b"1")
        assert await asyncio.wait_for(came.get(), 30) == b"1"


async def test_commands(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*words: str) -> tuple[int, str]:
        result = await asyncio.to_thread(CliRunner().invoke, main, words)
        return result.exit_code, result.output

    monkeypatch.setenv("POPMQ_CONFIG_DIR", str(tmp_path / "config"))
    for who in (ROOT, ALICE):
        monkeypatch.setenv("POPMQ_SECRET_KEY", who.secret_key)
        add = ("context", "add", who.access_key, "--endpoint", endpoint, "--user", who.access_key)
        assert (await run(*add))[0] == 0
    monkeypatch.delenv("POPMQ_SECRET_KEY")
    assert (await run("topic", "list", "--context", "root"))[0] == 0
    assert (await run("doctor", "--context", "root"))[0] == 0
    assert (await run("send", "orders", "x", "--context", "alice"))[0] == 0
    code, printed = await run("topic", "delete", "orders", "--yes", "--context", "alice")
    assert code == 1
    assert "as user 'alice' (context alice): User:alice has no permission" in printed
    code, printed = await run("doctor", "--endpoint", endpoint)
    assert (code, "denies you access" in printed) == (1, True)
