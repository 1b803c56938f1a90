"""popmq explain, doctor and bench, and completion, against a server in the same process."""

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from harness.damaging import damage_entry
from harness.processes import POPMQ, free_port
from integration.served import popmq

from popmq.testing import PopmqBroker
from popmq_cli.main import main


@pytest.fixture(scope="module")
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker() as broker:
        yield broker


def test_explain_shows_a_timeline_and_a_reason(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    message_id = server.send("explained", "1")
    (message,) = server.receive("explained", "billing")
    server.nack(message, delay_s=600, reason="database is down")
    output = popmq("explain", message_id, *at).output
    assert f"{message_id}, topic explained" in output
    assert "handed out to group billing, attempt 1" in output
    assert "group billing: not visible now (retry-wait)" in output
    assert "database is down" in output
    assert "that is in 10 min" in output or "that is in 9 min" in output
    told = json.loads(popmq("explain", message_id, "--json", *at).stdout)
    assert [event["kind"] for event in told["timeline"]] == ["sent", "delivered-to", "nacked"]
    assert told["verdicts"][0]["state"] == "retry-wait"
    assert told["verdicts"][0]["untilMs"] == server.now_ms + 600_000
    told = json.loads(popmq("explain", message_id, "--group", "new", "--json", *at).stdout)
    assert [one["state"] for one in told["verdicts"]] == ["no-group"]


def test_explain_says_what_it_does_not_know(server: PopmqBroker) -> None:
    server.send("explained", "2")
    at = ("--endpoint", server.endpoint)
    assert "no message has the id nothing" in popmq("explain", "nothing", *at, code=1).output
    told = json.loads(popmq("explain", "nothing", "--json", *at, code=1).stdout)
    assert told["found"] is False
    output = popmq("explain", "nothing", "--topic", "none", *at, code=1).output
    assert "no broker has the topic none" in output
    assert "no message id" in popmq("explain", "", *at, code=1).output
    popmq("explain", "x", "--endpoint", f"127.0.0.1:{free_port()}", code=3)


def test_doctor_finds_nothing_then_a_clock_and_a_stuck_group() -> None:
    with PopmqBroker(disk_clean_percent=100) as server:
        at = ("--endpoint", server.endpoint)
        assert "is well" in popmq("doctor", *at).output
        server.send("orders", "1")
        server.receive("orders", "billing")
        server.send("orders", "2")
        server.advance(61)
        told = json.loads(popmq("doctor", "--json", *at, code=1).stdout)
        codes = [one["code"] for one in told["findings"]]
        assert codes == ["clock-skew", "clock-skew", "group-stuck"]
        assert "2 messages of topic orders not delivered" in told["findings"][2]["what"]


def test_a_damaged_queue_is_told_and_rebuilt_while_the_broker_runs(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with PopmqBroker(data_dir=data_dir, disk_clean_percent=100) as server:
        at = ("--endpoint", server.endpoint)
        for number in range(5):
            server.send("orders", str(number))
        server.crash_broker()
        queue = next((data_dir / "consumequeue" / "orders").iterdir())
        damage_entry(data_dir, "orders", int(queue.name), 0)
        got = [message.body for message in server.receive("orders", "billing")]
        assert len(got) == 4
        told = popmq("doctor", *at, code=1).output
        assert "1 message of queue" in told
        assert "group billing went over 1 message of topic orders" in told
        place = ("--topic", "orders", "--queue", queue.name)
        assert f"store rebuild --topic orders --queue broker-a:{queue.name}" in told
        (done,) = json.loads(popmq("store", "rebuild", *place, "--json", *at).stdout)["brokers"]
        assert (done["repaired"], done["unreadable"], done["delivered"]) == (1, 0, 1)
        got += [message.body for message in server.receive("orders", "billing")]
        assert sorted(got) == [b"0", b"1", b"2", b"3", b"4"]
        assert "cannot be read" not in popmq("doctor", *at, code=0).output
        place = ("--topic", "orders", "--queue", "999")
        assert "has no queue 999" in popmq("store", "rebuild", *place, *at, code=1).output
    assert "name a directory" in popmq("store", "rebuild", code=2).output


def test_doctor_looks_at_a_topic_and_a_group(server: PopmqBroker) -> None:
    server.create_topic("strict", type="NORMAL")
    server.create_group("known")
    at = ("--endpoint", server.endpoint, "--json")

    def codes(*arguments: str, code: int = 1) -> set[str]:
        told = json.loads(popmq("doctor", *arguments, *at, code=code).stdout)
        return {one["code"] for one in told["findings"]}

    assert codes("--topic", "strict", "--group", "known", code=0) == set()
    assert codes("--topic", "strict", "--type", "FIFO") == {"topic-type"}
    assert codes("--topic", "none", "--group", "none") == {"topic-missing", "group-missing"}
    assert "none" not in popmq("topic", "list", *at[:2]).output  # looking makes nothing
    assert codes("--tls") == {"tls-refused"}
    told = json.loads(
        popmq("doctor", "--endpoint", f"127.0.0.1:{free_port()}", "--json", code=1).stdout
    )
    assert [one["code"] for one in told["findings"]] == ["endpoint-nothing"]
    output = popmq("doctor", "--endpoint", "ftp://host:1", code=2).output
    assert "is neither http:// nor https://" in output


def test_bench_shows_both_phases_and_cleans_up(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    output = popmq("bench", "--count", "70", "--in-flight", "4", *at).output
    assert "receive, ack" in output
    rows = json.loads(popmq("bench", "--count", "65", "--batch", "16", "--json", *at).stdout)
    assert [(row["phase"], row["messages"]) for row in rows] == [
        ("send", 65),
        ("receive, ack", 65),
    ]
    assert all(
        row["messagesPerSecond"] > 0 and row["callMsP99"] >= row["callMsP50"] for row in rows
    )
    assert "popmq-bench" not in popmq("topic", "list", *at).output
    assert "popmq-bench" not in popmq("group", "list", *at).output


def test_completion_knows_commands_options_topics_and_groups(
    server: PopmqBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def completed(*words: str) -> list[str]:
        shell = ShellComplete(main, {}, "popmq", "_POPMQ_COMPLETE")
        return [one.value for one in shell.get_completions(list(words[:-1]), words[-1])]

    assert completed("expl") == ["explain"]
    assert "--group" in completed("explain", "--")
    server.create_topic("completed-1")
    server.create_group("completed-g")
    monkeypatch.setenv("POPMQ_ENDPOINT", server.endpoint)
    assert completed("topic", "show", "comp") == ["completed-1"]
    assert completed("tail", "comp") == ["completed-1"]
    assert completed("message", "find", "comp") == ["completed-1"]
    assert completed("group", "show", "comp") == ["completed-g"]
    assert completed("dlq", "list", "comp") == ["completed-g"]
    assert completed("group", "reset-offset", "comp") == ["completed-g"]
    assert completed("receive", "x", "--group", "comp") == ["completed-g"]
    monkeypatch.setenv("POPMQ_ENDPOINT", f"127.0.0.1:{free_port()}")
    assert completed("topic", "show", "comp") == []  # no server: no names, no noise


def test_tail_takes_its_group_away_when_it_is_terminated(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    server.create_topic("tailed")
    with subprocess.Popen([POPMQ, "tail", "tailed", *at], stdout=subprocess.PIPE) as tail:
        try:
            assert tail.stdout is not None
            while "TAIL-" not in popmq("group", "list", *at).output:
                assert tail.poll() is None
                time.sleep(0.05)
            seen = b""
            while b"hello" not in seen:  # what comes before its first receive it does not show
                server.send("tailed", "hello")
                if select.select([tail.stdout], [], [], 0.5)[0]:
                    seen += os.read(tail.stdout.fileno(), 4096)
            tail.terminate()
            assert tail.wait(30) == 143
        finally:
            tail.kill()
    assert "TAIL-" not in popmq("group", "list", *at).output
