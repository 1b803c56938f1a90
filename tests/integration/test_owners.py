"""Owners of topics and groups from the command line, from an app and from the SDK's admins."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.served import popmq, serving

from popmq import App, Client, Group, RefusedByServer, Topic
from popmq.sync import SyncClient
from popmq.testing import PopmqBroker


@pytest.fixture
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker() as broker:
        yield broker


def told(*arguments: str) -> Any:
    """What --json prints."""
    return json.loads(popmq(*arguments, "--json").stdout)


def names(*arguments: str) -> list[str]:
    return [one["name"] for one in told(*arguments)]


@pytest.mark.parametrize(
    ("what", "settings"),
    [("topic", "NORMAL, 8 queues"), ("group", "16 attempts, starts after the last message")],
)
def test_from_the_command_line(server: PopmqBroker, what: str, settings: str) -> None:
    at = ("--endpoint", server.endpoint)
    made = popmq(what, "create", "one", "--owner", "payments", *at).stdout
    start = made.partition(" (")[2].partition(", owner payments)")[0]
    assert made == f"{what.capitalize()} one ({start}, owner payments) is on broker-a.\n"
    popmq(what, "create", "two", *at)
    assert popmq(what, "create", "one", *at).stdout.endswith(" is on broker-a already.\n")
    shown = popmq(what, "show", "one", *at).stdout
    assert "\nOwner: payments\n" in shown
    assert "Owner" not in popmq(what, "show", "two", *at).stdout

    head, one, two = popmq(what, "list", *at).stdout.splitlines()
    assert head.split()[-1] == "OWNER"
    assert (one.split()[-1], two.split()[-1]) == ("payments", "-")
    assert names(what, "list", "--owner", "payments", *at) == ["one"]
    assert names(what, "list", "--owner", "", *at) == ["two"]
    assert names(what, "list", "--owner", "pay", *at) == []
    assert [found["owner"] for found in told(what, "list", *at)] == ["payments", ""]
    assert told(what, "show", "one", *at)[what]["owner"] == "payments"

    refused = popmq(what, "create", "one", "--owner", "orders", *at, code=1).stderr
    assert refused == (
        f"popmq: The {what} one exists and belongs to payments, not to orders. Change that with: "
        f"popmq {what} set one --owner orders.\n"
    )
    wrong = popmq(what, "set", "one", "--owner", "pay ments", *at, code=1).stderr
    assert "Illegal owner 'pay ments': allowed are 1 to 64 characters" in wrong
    changed = popmq(what, "set", "one", "--owner", "orders", *at).stdout
    assert changed == f"{what.capitalize()} one ({start}, owner orders) is on broker-a.\n"
    assert told(what, "set", "one", "--owner", "", *at)[what]["owner"] == ""
    assert popmq(what, "list", *at).stdout.splitlines()[0].split()[-1] != "OWNER"


async def test_from_the_admin(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        admin = client.admin
        await admin.create_topic("orders", owner="payments")
        await admin.create_group("billing", owner="payments")
        assert await admin.list_topics() == [
            Topic(name="orders", type="NORMAL", queues=8, owner="payments")
        ]
        (group,) = await admin.list_groups()
        assert group.owner == "payments"
        for ensure in (admin.ensure_topic, admin.ensure_group):
            name = "orders" if ensure == admin.ensure_topic else "billing"
            assert not await ensure(name)
            assert not await ensure(name, owner="payments")
            assert await ensure(name, owner="orders")
            assert await ensure(name, owner="")
            assert not await ensure(name, owner="")
            with pytest.raises(RefusedByServer, match="1 to 64 characters"):
                await ensure(name, owner="a b")
        with pytest.raises(RefusedByServer, match="belongs to nobody, not to orders"):
            await admin.create_topic("orders", owner="orders")


def test_without_asyncio(popmq_broker: PopmqBroker) -> None:
    with SyncClient(popmq_broker.endpoint) as client:
        client.admin.create_topic("orders", owner="payments")
        assert client.admin.ensure_group("billing", owner="payments")
        topic, group = client.admin.find_topic("orders"), client.admin.find_group("billing")
        assert isinstance(topic, Topic)
        assert isinstance(group, Group)
        assert (topic.owner, group.owner) == ("payments", "payments")


async def test_what_an_app_declares(tmp_path: Path) -> None:
    """An app that declares none leaves it alone; one that declares another one changes it."""
    async with serving(tmp_path) as endpoint, Client(endpoint) as client:

        async def owners(declared: str | None) -> list[str]:
            """After a start of the app."""
            app = App(endpoint)
            if declared is None:
                app.topic("t", queues=2)
                app.group("g", start="first")
            else:
                app.topic("t", owner=declared)
                app.group("g", owner=declared)

            @app.handler("t", "g")
            async def handle(body: bytes) -> None: ...

            async with app:
                (topic,), (group,) = (
                    await client.admin.list_topics(),
                    await client.admin.list_groups(),
                )
                return [topic.owner, group.owner]

        assert await owners("payments") == ["payments", "payments"]
        assert await owners(None) == ["payments", "payments"]
        assert await owners("orders") == ["orders", "orders"]
        assert await owners("") == ["", ""]
