"""The command line against a real server, as a user types it."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.processes import POPMQ, Server, free_port, standalone

from popmq import Client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with standalone(tmp_path_factory.mktemp("cli")) as running:
        yield running


def popmq(*arguments: str, code: int = 0, text: bytes | None = None) -> tuple[str, str]:
    done = subprocess.run(
        [POPMQ, *arguments], capture_output=True, timeout=60, check=False, input=text
    )
    output, errors = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == code, output + errors
    assert "Traceback" not in errors
    return output, errors


def test_a_message_by_hand(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("send", "hello", "world", "--tag", "new", "--key", "k", "--property", "a=b", *at)
    output, notes = popmq("receive", "hello", "--group", "mine", *at)
    assert "world" in output
    assert "Group mine is new and starts at the first message." in notes
    assert "not acknowledged" in notes
    output, notes = popmq("receive", "hello", "--group", "other", "--ack", "--json", *at)
    (message,) = json.loads(output)
    assert (message["body"], message["tag"], message["keys"]) == ("world", "new", ["k"])
    assert message["properties"] == {"a": "b"}
    _, notes = popmq("receive", "hello", "--group", "other", "--wait", "0.1", *at)
    assert "No message came" in notes


def test_transactions_by_hand(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "paid", "--type", "TRANSACTION", *at)
    popmq("group", "create", "ledger", "--from", "first", *at)

    async def begin() -> list[str]:
        async with Client(server.endpoint) as client:
            return [
                (await client.transactions.send("paid", body, keys=["k7"])).transaction_id
                for body in (b"yes", b"no")
            ]

    first, second = asyncio.run(begin())
    output, notes = popmq("transaction", "list", "--topic", "paid", "--limit", "1", *at)
    assert first in output
    assert "k7" in output
    assert second not in output
    assert "2 in all." in notes
    assert "is committed" in popmq("transaction", "commit", first, *at)[0]
    assert "is rolled back" in popmq("transaction", "rollback", second, *at)[0]
    popmq("transaction", "rollback", second, *at)
    _, errors = popmq("transaction", "commit", second, *at, code=1)
    assert "was rolled back before" in errors
    assert "not valid" in popmq("transaction", "commit", "x", *at, code=1)[1]
    assert json.loads(popmq("transaction", "list", "--json", *at)[0]) == {
        "transactions": [],
        "count": 0,
    }
    output, _ = popmq("receive", "paid", "--group", "ledger", "--ack", "--json", *at)
    assert [message["body"] for message in json.loads(output)] == ["yes"]


def test_a_body_from_standard_input(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("send", "stdin", "-", *at, text="grüße".encode())
    output, _ = popmq("receive", "stdin", "--group", "g", "--ack", "--json", *at)
    assert json.loads(output)[0]["body"] == "grüße"


def test_topics_and_groups(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "orders", "--type", "FIFO", "--queues", "3", *at)
    listed = json.loads(popmq("topic", "list", "--json", *at)[0])
    orders = {"name": "orders", "messageType": "FIFO", "queues": 3, "readQueues": 3, "owner": ""}
    assert orders in listed
    shown = json.loads(popmq("topic", "show", "orders", "--json", *at)[0])
    assert [queue["queueId"] for queue in shown["queues"]] == [0, 1, 2]
    popmq("group", "create", "billing", "--max-attempts", "5", *at)
    assert "billing" in popmq("group", "list", *at)[0]
    assert "5 attempts" in popmq("group", "show", "billing", *at)[0]
    popmq("group", "delete", "billing", "--yes", *at)
    _, errors = popmq("group", "show", "billing", *at, code=1)
    assert "popmq group create billing" in errors
    popmq("topic", "delete", "orders", "--yes", *at)
    _, errors = popmq("topic", "show", "orders", *at, code=1)
    assert errors.startswith("popmq: Topic orders does not exist")


def test_a_group_and_its_retry_policy(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("group", "create", "patient", "--max-attempts", "5", *at)
    assert "Retries after 1s,5s,10s,30s,1m," in popmq("group", "show", "patient", *at)[0]
    popmq("group", "set", "patient", "--retry-policy", "1s,90s,2h", *at)
    shown = popmq("group", "show", "patient", *at)[0]
    assert "5 attempts" in shown
    assert "Retries after 1s,90s,2h." in shown
    popmq("group", "set", "patient", "--retry-policy", "exponential:500ms:1h:3", *at)
    popmq("group", "set", "patient", "--max-attempts", "7", "--from", "first", *at)
    shown = popmq("group", "show", "patient", *at)[0]
    assert "7 attempts, starts at the first message" in shown
    assert "Retries after exponential:500ms:1h:3." in shown
    _, errors = popmq("group", "set", "patient", "--retry-policy", "soon", *at, code=2)
    assert "'soon' is no duration" in errors
    _, errors = popmq("group", "set", "patient", "--retry-policy", "99h", *at, code=1)
    assert "retry delay" in errors
    _, errors = popmq("group", "set", "nobody", "--max-attempts", "7", *at, code=1)
    assert "popmq group create nobody" in errors


async def _give_up(endpoint: str, group: str, topic: str) -> None:
    async with Client(endpoint) as client:
        for body, reason in ((b"one", "bad schema"), (b"two", "no customer"), (b"\xff\x00", "x")):
            await client.send(topic, body, properties={"colour": "blue"})
            (message,) = await client.receive(topic, group, wait_s=5)
            await client.reject(message, reason)


def told(*arguments: str, code: int = 0) -> Any:
    """What --json prints."""
    return json.loads(popmq(*arguments, "--json", code=code)[0])


def given_up(server: Server, group: str) -> None:
    """Three dead letters of the group: bad schema, no customer, and one of bytes."""
    popmq("group", "create", group, "--from", "first", "--endpoint", server.endpoint)
    asyncio.run(_give_up(server.endpoint, group, f"topic-of-{group}"))


def test_dead_letters(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    given_up(server, "dead")
    listed = told("dlq", "list", "dead", *at)
    assert listed["cursor"] == ""
    reasons = [(one["attempts"], one["handedOut"], one["reason"]) for one in listed["letters"]]
    assert reasons == [(1, 1, "bad schema"), (1, 1, "no customer"), (1, 1, "x")]
    output, notes = popmq("dlq", "list", "dead", "--limit", "1", *at)
    assert "bad schema" in output
    assert "no customer" not in output
    cursor = notes.split("--cursor ")[1].strip()
    output, notes = popmq("dlq", "list", "dead", "--cursor", cursor, *at)
    assert "bad schema" not in output
    assert "no customer" in output
    assert notes == ""

    first, _, binary = (one["messageId"] for one in listed["letters"])
    shown = popmq("dlq", "show", "dead", first, *at)[0]
    assert "reason: bad schema" in shown
    assert "colour = blue" in shown
    assert shown.endswith("\none\n")
    assert "2 bytes that are not text" in popmq("dlq", "show", "dead", binary, *at)[0]
    assert told("dlq", "show", "dead", binary, *at)["bodyHex"] == "ff00"
    _, errors = popmq("dlq", "show", "dead", "nothing", *at, code=1)
    assert "popmq dlq list dead" in errors
    _, errors = popmq("dlq", "list", "nobody", *at, code=1)
    assert "Consumer group nobody does not exist" in errors


def test_dead_letters_are_redriven_at_a_pace(server: Server) -> None:
    given_up(server, "paced")
    began_s, paced = time.monotonic(), ("--per-second", "1", "--endpoint", server.endpoint)
    assert told("dlq", "redrive", "paced", "--all", *paced)["sent"] == 3
    assert time.monotonic() - began_s >= 2.0


def test_dead_letters_are_redriven(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    given_up(server, "again")
    redrive = ("dlq", "redrive", "again")
    planned = told(*redrive, "--all", "--dry-run", *at)
    assert (planned["sent"], planned["to"]) == (3, "group")
    output, _ = popmq(*redrive, "--reason", "customer", *at)
    assert output == "1 dead letter sent to group again alone; 0 had been sent before.\n"
    done = told(*redrive, "--all", "--limit", "1", *at)
    assert (done["sent"], done["more"]) == (1, True)
    assert told(*redrive, "--all", "--to-topic", *at) == {
        "sent": 1,
        "already": 2,
        "withoutTopic": 0,
        "inOrder": 0,
        "to": "topic",
        "dryRun": False,
        "more": False,
    }
    receive = ("receive", "topic-of-again", "--ack", "--wait", "200ms", *at)
    assert len(told(*receive, "--group", "others")) == 3 + 1, "to the topic is to every group"
    bodies = []
    while messages := told(*receive, "--group", "again"):
        bodies += [message["body"] for message in messages]
    assert sorted(bodies) == ["\\xff\x00", "one", "two"]
    assert popmq("dlq", "list", "again", *at)[0].count(" yes ") == 3
    popmq(*redrive, *at, code=2)
    popmq(*redrive, "--all", "--id", "x", *at, code=2)


def test_dead_letters_are_purged(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    given_up(server, "purged")
    purge = ("dlq", "purge", "purged")
    popmq(*purge, *at, code=2)
    _, errors = popmq(*purge, "--all", *at, code=1)
    assert "Delete 3 dead letters of purged?" in errors
    (queue,) = told(*purge, "--all", "--dry-run", *at)["queues"]
    assert (queue["count"], queue["sentAgain"]) == (3, 0)
    output, _ = popmq(*purge, "--before", "1h", "--yes", *at)
    assert output == "Deleted 0 dead letters.\n"
    output, _ = popmq(*purge, "--all", "--yes", *at)
    assert output == "Deleted 3 dead letters.\n"
    assert told("dlq", "list", "purged", *at)["letters"] == []


def test_tail_prints_and_leaves_nothing_behind(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "tailed", *at)
    tail = subprocess.Popen(
        [POPMQ, "tail", "tailed", "--max", "1", *at], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for i in range(200):  # until its first receive has marked where it begins
        popmq("send", "tailed", f"line {i}", *at)
        if tail.poll() is not None:
            break
    output, errors = tail.communicate(timeout=20)
    assert b"line" in output, errors
    assert "TAIL-" not in popmq("group", "list", *at)[0]


def test_nobody_there_is_exit_3_and_says_what_to_do() -> None:
    _, errors = popmq("topic", "list", "--endpoint", f"127.0.0.1:{free_port()}", code=3)
    assert "popmq standalone" in errors
    _, errors = popmq("send", "t", "x", "--endpoint", f"127.0.0.1:{free_port()}", code=3)
    assert "popmq standalone" in errors


def test_usage_is_exit_2() -> None:
    popmq("topic", "create", code=2)
    popmq("nonsense", code=2)
    _, errors = popmq("broker", code=2)
    assert "POPMQ_BROKER_DATA_DIR is missing" in errors


def test_a_data_directory_in_use_is_told(server: Server, tmp_path: Path) -> None:
    folder = server.processes["standalone"].log.parent / "data"
    _, errors = popmq("standalone", "--port", "0", "--data-dir", str(folder), code=1)
    assert "is in use by another process" in errors


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_POPMQ_COMPLETE" in popmq("completion", shell)[0]


def test_help_is_complete() -> None:
    output, _ = popmq("--help")
    for command in ("standalone", "topic", "group", "dlq", "send", "receive", "tail", "completion"):
        assert command in output


def test_a_group_goes_on_elsewhere(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "again", "--queues", "1", *at)
    popmq("group", "create", "anew", "--from", "first", *at)
    for body in ("one", "two", "three"):
        popmq("send", "again", body, *at)
    received = ("receive", "again", "--group", "anew", "--json", "--wait", "1")
    assert len(json.loads(popmq(*received, "--ack", "--max", "3", *at)[0])) == 3

    reset = ("group", "reset-offset", "anew", "again")
    broker = json.loads(popmq("group", "show", "anew", "--json", *at)[0])["queues"][0]["broker"]
    planned = json.loads(popmq(*reset, "--to-earliest", "--dry-run", "--json", *at)[0])
    (queue,) = planned["queues"]
    assert (queue["fromOffset"], queue["toOffset"], queue["fenced"]) == (3, 0, 0)
    output, _ = popmq(*reset, "--to-offset", "1", "--queue", f"{broker}:0", "--yes", *at)
    assert "CHANGE" in output
    assert [m["body"] for m in json.loads(popmq(*received, "--max", "9", *at)[0])] == [
        "two",
        "three",
    ]
    popmq(*reset, "--to-time", "7d", "--yes", *at)
    assert len(json.loads(popmq(*received, "--ack", "--max", "9", *at)[0])) == 3
    popmq(*reset, "--to-latest", "--yes", *at)

    _, errors = popmq(*reset, *at, code=2)
    assert "--to-earliest" in errors
    _, errors = popmq(*reset, "--to-time", "yesterday", *at, code=2)
    assert "30m" in errors
    _, errors = popmq(*reset, "--to-offset", "1", *at, code=1)
    assert "name broker and queue" in errors
    _, errors = popmq(*reset, "--to-offset", "9", "--queue", f"{broker}:0", *at, code=1)
    assert "has 0 to 3" in errors


def test_a_delayed_message_and_its_recall(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    output, _ = popmq("send", "timed", "later", "--delay", "1h", "--json", *at)
    (sent,) = json.loads(output)
    output, _ = popmq("recall", "timed", sent["recallHandle"], *at)
    assert "it will not be delivered" in output
    popmq("send", "timed", "soon", "--delay", "200ms", *at)
    output, _ = popmq("receive", "timed", "--group", "timed", "--ack", "--json", *at)
    assert [message["body"] for message in json.loads(output)] == ["soon"]
    output, _ = popmq("send", "timed", "past", "--at", "2020-01-01T00:00:00", *at)
    assert "RECALL HANDLE" not in output
    _, errors = popmq("recall", "timed", "nonsense", *at, code=1)
    assert "not one of this server's" in errors
    for wrong in (["--delay", "soon"], ["--delay", "1s", "--at", "2020-01-01"]):
        _, errors = popmq("send", "timed", "x", *wrong, *at, code=2)
        assert "no duration" in errors or "exclude" in errors
    output, _ = popmq("topic", "list", *at)
    assert "timed" in output
    assert "rmq_sys_wheel_timer" not in output


def test_messages_are_found(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("send", "found", "first", "--key", "order-7", "--tag", "new", *at)
    popmq("send", "found", "second", "--key", "order-7", "--key", "order-8", *at)
    output, notes = popmq("message", "find", "found", "--key", "order-7", *at)
    heading, newest, oldest = output.splitlines()
    assert " ".join(heading.split()) == (
        "MESSAGE ID BROKER QUEUE OFFSET STORED TAG KEYS BYTES BODY"
    )
    assert "second" in newest
    assert "order-7 order-8" in newest
    assert "first" in oldest
    assert notes == ""
    output, notes = popmq("message", "find", "found", "--key", "order-7", "--limit", "1", *at)
    assert "second" in output
    assert "There may be more: --to" in notes
    shown = popmq("message", "find", "found", "--key", "order-8", "--json", *at)[0]
    (message,) = json.loads(shown)["messages"]
    assert (message["body"], message["keys"]) == ("second", ["order-7", "order-8"])
    for get in (
        message["messageId"],
        f"{message['queueId']}:{message['queueOffset']}",
        f"{message['broker']}:{message['queueId']}:{message['queueOffset']}",
    ):
        output, _ = popmq("message", "get", "found", get, *at)
        assert f"message id: {message['messageId']}" in output
        assert "  KEYS = order-7 order-8" in output
        assert output.endswith("\n\nsecond\n")
        assert json.loads(popmq("message", "get", "found", get, "--json", *at)[0]) == message


def test_what_is_not_found_is_exit_code_1(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("send", "empty", "x", "--key", "k", *at)
    _, notes = popmq("message", "find", "empty", "--key", "other", *at, code=1)
    assert "topic empty has no message with key other" in notes
    output, _ = popmq("message", "find", "empty", "--key", "other", "--json", *at, code=1)
    assert json.loads(output) == {"messages": [], "incomplete": False}
    _, notes = popmq("message", "find", "nobody", "--key", "k", *at, code=1)
    assert "popmq topic create nobody" in notes
    _, notes = popmq("message", "get", "empty", "01AB", *at, code=1)
    assert "topic empty has no message 01AB" in notes
    _, notes = popmq("message", "get", "empty", "0:99", *at, code=1)
    assert "no message at offset 99 of queue 0" in notes
    _, notes = popmq("message", "get", "empty", "b:0:0", *at, code=1)
    assert "There is no broker b" in notes
    early = ("--to", "2020-01-01T00:00:00+02:00")
    popmq("message", "find", "empty", "--key", "k", *early, *at, code=1)
    popmq("message", "find", "empty", "--key", "k", "--from", "2020-01-01", *at)


def test_searches_that_make_no_sense_are_usage_errors(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    _, notes = popmq("message", "get", "t", *at, code=2)
    assert "Missing argument 'MESSAGE'" in notes
    _, notes = popmq("message", "get", "t", "x:7", *at, code=2)
    assert "'x:7' is neither a message id nor QUEUE:OFFSET" in notes
    _, notes = popmq("message", "find", "t", "--key", "k", "--from", "yesterday", *at, code=2)
    assert "'yesterday' is no time" in notes


def test_a_body_that_is_not_text(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    body = bytes(range(256)) * 100
    popmq("send", "binary", "-", "--key", "k", *at, text=body)
    output, _ = popmq("message", "find", "binary", "--key", "k", *at)
    assert "00 01 02 03 04 05 06 07 …" in output
    message_id = output.splitlines()[1].split()[0]
    output, _ = popmq("message", "get", "binary", message_id, *at)
    assert "(25,600 bytes that are not text; --body-only prints them)" in output
    get = [POPMQ, "message", "get", "binary", message_id, "--body-only", *at]
    assert subprocess.run(get, capture_output=True, timeout=60, check=True).stdout == body
