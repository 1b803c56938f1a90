"""What every official client must see. Each client has a driver that runs a scenario by name and
prints one JSON document; these checks are the same for all."""

import json
import subprocess
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from harness.processes import Server

Driver = Callable[[str, Server, str, str], Any]
SCENARIO_S = 100


def run(command: list[str], env: dict[str, str] | None = None) -> Any:
    done = subprocess.run(command, capture_output=True, timeout=SCENARIO_S, check=False, env=env)
    output = done.stdout.decode()
    assert done.returncode == 0, f"{' '.join(command)}\n{output}\n{done.stderr.decode()[-4000:]}"
    return json.loads(output.strip().splitlines()[-1])


def fresh(server: Server, max_attempts: int = 16) -> tuple[str, str]:
    """A topic and a group that begins with its first message."""
    name = uuid4().hex[:8]
    topic, group = f"topic-{name}", f"group-{name}"
    server.cli("topic", "create", topic, "--queues", "4")
    server.cli("group", "create", group, "--from", "first", "--max-attempts", str(max_attempts))
    return topic, group


def fresh_in_order(server: Server) -> tuple[str, str]:
    """A FIFO topic and a FIFO group that begins with its first message."""
    name = uuid4().hex[:8]
    topic, group = f"topic-{name}", f"group-{name}"
    server.cli("topic", "create", topic, "--queues", "4", "--type", "FIFO")
    server.cli("group", "create", group, "--from", "first", "--fifo")
    return topic, group


def fresh_with_transactions(server: Server) -> tuple[str, str]:
    name = uuid4().hex[:8]
    topic, group = f"topic-{name}", f"group-{name}"
    server.cli("topic", "create", topic, "--queues", "4", "--type", "TRANSACTION")
    server.cli("group", "create", group, "--from", "first")
    return topic, group


def check_round_trip(driver: Driver, server: Server) -> None:
    """Ten messages are sent, received once, acked, and do not come again."""
    seen = driver("round_trip", server, *fresh(server))
    assert sorted(message["body"] for message in seen["messages"]) == [
        f"body-{i} 中文 🏷" for i in range(10)
    ]
    assert sorted(message["id"] for message in seen["messages"]) == sorted(seen["sent"])
    for message in seen["messages"]:
        assert message["attempt"] == 1
        assert message["tag"] == "blue"
        assert message["keys"] == ["key-1", "key-2"]
        assert message["properties"] == {"colour": "blau, naïve"}
    assert seen["again"] == []


def check_redelivery(driver: Driver, server: Server) -> None:
    """Not acked in time: it comes again, with its attempt counted; the old handle is void."""
    seen = driver("redelivery", server, *fresh(server))
    assert [message["attempt"] for message in seen["messages"]] == [1, 2]
    assert len({message["id"] for message in seen["messages"]}) == 1
    assert seen["late_ack_refused"]


def check_change_invisible(driver: Driver, server: Server) -> None:
    """Held longer than its first invisible time, then acked with the new handle."""
    seen = driver("change_invisible", server, *fresh(server))
    assert seen["while_held"] == []
    assert seen["after_ack"] == []


def check_tag_filter(driver: Driver, server: Server) -> None:
    """`A||Aa` gives these two and not BB, whose hash is the same as Aa's."""
    seen = driver("tag_filter", server, *fresh(server))
    assert sorted(message["tag"] for message in seen["messages"]) == ["A", "Aa"]


def check_sql_filter(driver: Driver, server: Server) -> None:
    """Of four messages one has both a price in the range and a region."""
    seen = driver("sql_filter", server, *fresh(server))
    assert [message["body"] for message in seen["messages"]] == ["near"], seen


def check_push(driver: Driver, server: Server) -> None:
    """A push consumer gets each message once; one that failed comes again with attempt 2."""
    seen = driver("push", server, *fresh(server))
    attempts: dict[str, list[int]] = {}
    for message in seen["messages"]:
        attempts.setdefault(message["body"], []).append(message["attempt"])
    failed = attempts.pop("body-3")
    assert failed == [1, 2]
    assert attempts == {f"body-{i}": [1] for i in range(10) if i != 3}


def check_slow_push(driver: Driver, server: Server) -> None:
    """A handler that takes longer than the invisible time: the server renews the lease, so nobody
    gets the message a second time."""
    seen = driver("slow_push", server, *fresh(server))
    assert [message["body"] for message in seen["messages"]] == ["slow"]
    assert seen["seconds"] > 7


def check_fifo(driver: Driver, server: Server) -> None:
    """256 messages of one message group: in exact order, none twice, within a minute."""
    seen = driver("fifo", server, *fresh_in_order(server))
    assert [message["body"] for message in seen["messages"]] == [f"m-{i}" for i in range(256)]
    assert seen["seconds"] < 60


def check_fifo_push(driver: Driver, server: Server) -> None:
    """Three message groups: one that fails comes again before what is behind it."""
    seen = driver("fifo_push", server, *fresh_in_order(server))
    bodies = [message["body"] for message in seen["messages"]]
    for name in "abc":
        numbers = [int(body[2:]) for body in bodies if body.startswith(name)]
        failed = [3] if name == "a" else []
        assert numbers == [0, 1, 2, *failed, *range(3, 10)], bodies


def check_delay(driver: Driver, server: Server) -> None:
    """Some seconds later, never early, with its time; the recalled one never, and then it is too
    late to recall the other."""
    topic, group = fresh(server)
    server.cli("topic", "create", f"{topic}-delay", "--queues", "4", "--type", "DELAY")
    seen = driver("delay", server, f"{topic}-delay", group)
    assert [message["body"] for message in seen["messages"]] == ["later"]
    assert seen["recalled"] == seen["sent"][1]
    # A client that waits at one of two brokers comes to the other when that poll is over.
    assert seen["due_ms"] <= seen["came_ms"] < seen["due_ms"] + 8_000
    assert seen["told_due_ms"] == seen["due_ms"]
    assert "cannot be recalled any more" in seen["too_late"]


def check_transaction(driver: Driver, server: Server) -> None:
    """One is committed, one rolled back, two are forgotten: the server asks about these, each once,
    and the checker commits the one and rolls back the other."""
    seen = driver("transaction", server, *fresh_with_transactions(server))
    assert sorted(message["body"] for message in seen["messages"]) == ["commit", "forgotten-commit"]
    assert sorted(seen["asked"]) == ["forgotten-commit", "forgotten-rollback"]


CHECKS = [
    check_delay,
    check_transaction,
    check_round_trip,
    check_redelivery,
    check_change_invisible,
    check_tag_filter,
    check_sql_filter,
    check_push,
    check_slow_push,
    check_fifo,
    check_fifo_push,
]
