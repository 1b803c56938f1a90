"""What the command line tells of messages that a group does not get, and of queues that go."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from harness.processes import Server, standalone
from integration.served import popmq


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with standalone(tmp_path_factory.mktemp("notes")) as running:
        yield running


def notes(server: Server) -> list[str]:
    found: Any = json.loads(popmq("doctor", "--json", "--endpoint", server.endpoint).stdout)
    return list(found["notes"])


def test_doctor_tells_what_a_group_skipped_at_its_start(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("send", "hello", "too early", "--count", "3", *at)
    receive = ("receive", "hello", "--group", "late", "--json", *at)
    assert popmq(*receive, "--from", "last", "--wait", "0.1").stdout.strip() == "[]"
    (note,) = notes(server)
    assert "group late started at" in note
    assert "skipped 3 messages of topic hello" in note
    popmq("group", "reset-offset", "late", "hello", "--to-earliest", "--yes", *at)
    assert notes(server) == []
    assert len(json.loads(popmq(*receive).stdout)) == 3


def test_a_topic_with_fewer_queues_hides_no_message(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "fewer", "--queues", "4", *at)
    sent = [popmq("send", "fewer", body, "--json", *at).stdout for body in "abcd"]
    told = popmq("topic", "set", "fewer", "--queues", "1", *at).stdout.splitlines()
    assert told[0].startswith("Topic fewer (NORMAL, 1 queue) is on broker-")
    stay = (
        "Queues 1 to 3 take no more messages. They are read until retention has deleted what is "
        "stored in them."
    )
    assert told[1:] == [stay]
    assert stay in popmq("topic", "show", "fewer", *at).stdout

    (note,) = [note for note in notes(server) if "topic fewer" in note]
    assert "the 3 messages in them; no group has received of the topic yet" in note
    received = ("receive", "fewer", "--group", "all", "--ack", "--json", *at)
    output = popmq(*received, "--max", "1").stdout
    (note,) = [note for note in notes(server) if "topic fewer" in note]
    left = 3 if json.loads(output)[0]["queueId"] == 0 else 2
    assert f"not done with them: group all ({left} messages)" in note
    output += popmq(*received).stdout
    assert [output.count(f'"body": "{body}"') for body in "abcd"] == [1, 1, 1, 1]
    (note,) = [note for note in notes(server) if "topic fewer" in note]
    assert "the 3 messages in them; every group of the topic is done with them" in note

    for (receipt,) in map(json.loads, sent):
        told = json.loads(popmq("explain", receipt["messageId"], "--json", *at).stdout)
        queue = json.loads(
            popmq("message", "get", "fewer", receipt["messageId"], "--json", *at).stdout
        )
        noted = [note for note in told["notes"] if "takes no more messages" in note]
        assert len(noted) == (queue["queueId"] > 0)
