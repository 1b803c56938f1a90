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
    for body in "abcd":
        popmq("send", "fewer", body, *at)
    popmq("topic", "set", "fewer", "--queues", "1", *at)
    (note,) = [note for note in notes(server) if "topic fewer" in note]
    assert note.endswith("messages left there: none"), "no group has received yet"
    output = popmq("receive", "fewer", "--group", "all", "--ack", "--json", *at).stdout
    assert {message["body"] for message in json.loads(output)} == set("abcd")
