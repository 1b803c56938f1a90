"""Settings from the command line: what create, set and spread say and do, and how they end."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.processes import Process, Server, cluster, free_port
from integration.served import popmq

from popmq import Client
from popmq.testing import PopmqBroker


@pytest.fixture(scope="module")
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker() as broker:
        yield broker


def told(*arguments: str) -> Any:
    """What --json prints."""
    return json.loads(popmq(*arguments, "--json").stdout)


def test_a_topic_is_created_once_and_changed_by_set(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    create = ("topic", "create", "orders", "--type", "FIFO", "--queues", "2", *at)
    assert popmq(*create).stdout == "Topic orders (FIFO, 2 queues) is on broker-a.\n"
    assert popmq(*create).stdout == "Topic orders (FIFO, 2 queues) is on broker-a already.\n"
    assert told(*create)["existed"] is True
    for other in (("--queues", "8"), ("--type", "NORMAL", "--queues", "2"), ()):
        refused = popmq("topic", "create", "orders", *other, *at, code=1).stderr
        assert refused == (
            "popmq: Topic orders exists as FIFO with 2 queues. Change it with: popmq topic set "
            "orders.\n"
        )
    assert popmq("topic", "show", "orders", *at).stdout.startswith("orders: FIFO, 2 queues on each")
    changed = popmq("topic", "set", "orders", "--queues", "1", *at).stdout
    assert changed == "Topic orders (FIFO, 1 queue) is on broker-a.\n", "nothing lies in the other"
    changed = popmq("topic", "set", "orders", "--type", "mixed", *at).stdout
    assert changed == "Topic orders (MIXED, 1 queue) is on broker-a.\n"
    refused = popmq("topic", "set", "orders", *at, code=1).stderr
    assert "nothing to change was named" in refused
    refused = popmq("topic", "set", "nothing", "--queues", "2", *at, code=1).stderr
    assert "popmq topic create nothing" in refused


def test_a_group_is_created_once_and_changed_by_set(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    create = ("group", "create", "billing", "--max-attempts", "5", "--from", "first", *at)
    is_on = "Group billing (5 attempts, starts at the first message) is on broker-a"
    assert popmq(*create).stdout == f"{is_on}.\n"
    assert popmq(*create).stdout == f"{is_on} already.\n"
    assert told(*create)["existed"] is True
    for other in (("--max-attempts", "16"), ("--fifo",), ()):
        refused = popmq("group", "create", "billing", *other, *at, code=1).stderr
        assert refused.startswith("popmq: Group billing exists with other settings: ")
        assert refused.endswith(
            " 5 attempts, starts at FIRST. Change it with: popmq group set billing.\n"
        )
    changed = popmq("group", "set", "billing", "--max-attempts", "1", *at).stdout
    assert changed == "Group billing (1 attempt, starts at the first message) is on broker-a.\n"
    assert "nothing to change was named" in popmq("group", "set", "billing", *at, code=1).stderr


def test_the_ceiling_of_what_is_given_back_uncounted(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("group", "create", "patient", "--from", "first", "--max-hand-outs", "2", *at)
    ceiling = "A message that is given back uncounted is dead-lettered after {}.\n"
    assert ceiling.format("2 hand-outs") in popmq("group", "show", "patient", *at).stdout
    popmq("group", "set", "patient", "--max-hand-outs", "3", *at)
    assert ceiling.format("3 hand-outs") in popmq("group", "show", "patient", *at).stdout
    assert told("group", "show", "patient", *at)["group"]["maxHandOuts"] == 3
    assert "x>=1" in popmq("group", "set", "patient", "--max-hand-outs", "0", *at, code=2).stderr

    message_id = server.send("again", "1")
    for _ in range(3):
        (message,) = server.receive("again", "patient")
        server.nack(message, delay_s=0, reason="not now", counted=False)
    (letter,) = told("dlq", "list", "patient", *at)["letters"]
    assert (letter["messageId"], letter["handedOut"]) == (message_id, 3)
    shown = popmq("dlq", "show", "patient", message_id, *at).stdout
    assert "reason: handed out 3 times, 3 of them uncounted: not now\n" in shown
    assert "handed out: 3\n" in shown


def test_a_group_in_order_is_told_how_its_dead_letters_come_again(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("group", "create", "strict", "--fifo", "--from", "first", *at)

    async def give_up() -> None:
        async with Client(server.endpoint) as client:
            await client.send("ledger", b"1", message_group="m")
            (message,) = await client.receive("ledger", "strict", wait_s=5)
            await client.reject(message, "no entry")

    asyncio.run(give_up())
    for dry in (("--dry-run",), ()):
        refused = popmq("dlq", "redrive", "strict", "--all", *dry, *at, code=1)
        assert refused.stderr == (
            "popmq: 1 dead letter was left: group strict consumes in order, so they cannot be sent "
            "to it alone; --to-topic sends them to their topics, where every group receives them\n"
        )
    done = popmq("dlq", "redrive", "strict", "--all", "--to-topic", *at)
    assert done.stdout == "1 dead letter sent to its topic; 0 had been sent before.\n"
    assert [one.body for one in server.receive("ledger", "strict")] == [b"1"]


@pytest.mark.timeout(180)
def test_spread_brings_topics_to_a_broker_that_was_added(tmp_path: Path) -> None:
    with cluster(tmp_path, brokers=1, proxies=1) as running:
        at = ("--endpoint", running.endpoint)
        popmq("topic", "create", "orders", "--type", "FIFO", "--queues", "2", *at)
        popmq("topic", "create", "other", *at)
        assert popmq("topic", "spread", "--all", *at).stdout == "Every broker has every topic.\n"
        assert popmq("topic", "spread", "orders", *at).stdout == "Every broker has it already.\n"
        _add_broker(running, tmp_path)
        while "broker-b" not in str(told("cluster", "status", "--over", "100ms", *at)):
            pass
        spread = popmq("topic", "spread", "orders", *at).stdout
        assert spread == "Topic orders is now on broker-b too.\n"
        assert told("topic", "spread", "--all", *at) == [{"name": "other", "brokers": ["broker-b"]}]
        assert popmq("topic", "spread", "--all", *at).stdout == "Every broker has every topic.\n"
        shown = told("topic", "show", "orders", *at)
        assert {queue["broker"] for queue in shown["queues"]} == {"broker-a", "broker-b"}
        refused = popmq("topic", "spread", "nothing", *at, code=1).stderr
        assert "popmq topic create nothing" in refused
        for wrong in ((), ("orders", "--all")):
            assert "say which" in popmq("topic", "spread", *wrong, *at, code=2).stderr


def _add_broker(running: Server, folder: Path) -> None:
    port = free_port()
    settings = {
        **running.processes["broker-a"].env,
        "POPMQ_BROKER_NAME": "broker-b",
        "POPMQ_BROKER_PORT": str(port),
        "POPMQ_BROKER_DATA_DIR": str(folder / "broker-b"),
    }
    added = Process(["broker"], settings, folder / "broker-b.log", port)
    running.processes["broker-b"] = added
    added.start()
