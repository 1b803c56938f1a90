"""How messages and queues are named on the command line: alike in every command."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.processes import cluster
from integration.served import popmq

from popmq.testing import PopmqBroker


@pytest.fixture(scope="module")
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker() as broker:
        yield broker


def told(*arguments: str, code: int = 0) -> Any:
    """What --json prints."""
    return json.loads(popmq(*arguments, "--json", code=code).stdout)


def test_a_message_is_an_id_or_a_place(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    message_id = server.send("orders", "1")
    one = told("message", "get", "orders", message_id, *at)
    queue, offset, broker = one["queueId"], one["queueOffset"], one["broker"]
    for name in (message_id, f"{queue}:{offset}", f"{broker}:{queue}:{offset}"):
        assert told("message", "get", "orders", name, *at) == one
        explained = told("explain", name, "--topic", "orders", *at)
        assert (explained["messageId"], explained["found"]) == (message_id, True)
    refused = popmq("explain", f"{queue}:{offset}", *at, code=2).stderr
    assert "QUEUE:OFFSET needs --topic" in refused
    get, explain = ("message", "get", "orders"), ("explain", "--topic", "orders")
    nothing = f"topic orders has no message at offset 99 of queue {queue}"
    for place, words in ((f"{queue}:99", nothing), (f"nowhere:{queue}:0", "no broker nowhere")):
        for command in (get, explain):
            assert words in popmq(*command, place, *at, code=1).stderr
    wrong = "'x:7' is neither a message id nor QUEUE:OFFSET"
    for words_before in (get, explain, ("dlq", "show", "g"), ("dlq", "redrive", "g", "--id")):
        assert wrong in popmq(*words_before, "x:7", *at, code=2).stderr


def test_a_dead_letter_too(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    for body in ("1", "2", "3"):
        server.send("payments", body)
    for message in server.receive("payments", "ledger"):
        server.reject(message, f"no {message.body.decode()}")
    letters = told("dlq", "list", "ledger", *at)["letters"]
    second = letters[1]
    place = f"{second['broker']}:0:{second['offset']}"
    for name in (second["messageId"], f"0:{second['offset']}", place):
        assert told("dlq", "show", "ledger", name, *at)["reason"] == second["reason"]
        assert [
            one["offset"] for one in told("dlq", "list", "ledger", "--id", name, *at)["letters"]
        ] == [second["offset"]]
    refused = popmq("dlq", "show", "ledger", "0:99", *at, code=1).stderr
    assert (
        refused == "popmq: group ledger has no dead letter 0:99; popmq dlq list ledger lists them\n"
    )
    assert told("dlq", "redrive", "ledger", "--id", place, *at)["sent"] == 1
    (again,) = server.receive("payments", "ledger")
    assert again.message_id == second["messageId"]


def test_a_queue_is_a_number_with_or_without_its_broker(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "single", "--queues", "1", *at)
    popmq("group", "create", "reader", "--from", "first", *at)
    server.send("single", "1")
    server.receive("single", "reader")
    reset = ("group", "reset-offset", "reader", "single", "--to-offset", "0", "--yes")
    for queue in ("0", "broker-a:0"):
        (done,) = told(*reset, "--queue", queue, *at)["queues"]
        assert (done["broker"], done["queueId"]) == ("broker-a", 0)
    assert "has no queue 7" in popmq(*reset, "--queue", "7", *at, code=1).stderr

    rebuild = ("store", "rebuild", "--topic", "single")
    for words in (
        ("--queue", "0"),
        ("--queue", "broker-a:0"),
        ("--queue", "0", "--broker", "broker-a"),
    ):
        (done,) = told(*rebuild, *words, *at)["brokers"]
        assert (done["broker"], done["failure"]) == ("broker-a", "")
    refused = popmq(*rebuild, "--queue", "broker-a:0", "--broker", "broker-b", *at, code=2).stderr
    assert "two brokers are named" in refused
    for wrong in ("x:y", "-1", ":0", "broker-a:"):
        for command in (reset, rebuild):
            refused = popmq(*command, f"--queue={wrong}", *at, code=2).stderr
            assert f"'{wrong}' is neither QUEUE nor BROKER:QUEUE" in refused


@pytest.mark.timeout(120)
def test_what_two_brokers_have_is_asked_for(tmp_path: Path) -> None:
    with cluster(tmp_path, brokers=2, proxies=1) as running:
        at = ("--endpoint", running.endpoint)
        popmq("topic", "create", "orders", "--queues", "1", *at)
        popmq("group", "create", "billing", "--from", "first", *at)
        for body in ("1", "2"):
            popmq("send", "orders", body, *at)
        names = "brokers broker-a, broker-b have"
        for command in (
            ("message", "get", "orders", "0:0"),
            ("explain", "0:0", "--topic", "orders"),
        ):
            refused = popmq(*command, *at, code=1).stderr
            assert (
                f"{names} a message at offset 0 of queue 0; say which: BROKER:QUEUE:OFFSET"
                in refused
            )
        reset = ("group", "reset-offset", "billing", "orders", "--to-offset", "1", "--yes")
        refused = popmq(*reset, "--queue", "0", *at, code=1).stderr
        assert f"{names} a queue 0; say which: BROKER:QUEUE" in refused
        (done,) = told(*reset, "--queue", "broker-b:0", *at)["queues"]
        assert done["broker"] == "broker-b"
        explained = told("explain", "broker-b:0:0", "--topic", "orders", *at)
        assert {event["broker"] for event in explained["timeline"]} == {"broker-b"}
