"""The command line against a real server, as a user types it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.processes import POPMQ, Server, free_port, standalone


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
    assert "Nothing came" in notes


def test_a_body_from_standard_input(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("send", "stdin", "-", *at, text="grüße".encode())
    output, _ = popmq("receive", "stdin", "--group", "g", "--ack", "--json", *at)
    assert json.loads(output)[0]["body"] == "grüße"


def test_topics_and_groups(server: Server) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "orders", "--type", "FIFO", "--queues", "3", *at)
    listed = json.loads(popmq("topic", "list", "--json", *at)[0])
    assert {"name": "orders", "messageType": "FIFO", "queues": 3} in listed
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
    for command in ("standalone", "topic", "group", "send", "receive", "tail", "completion"):
        assert command in output
