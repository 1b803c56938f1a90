"""What every official client must see. Each client has a driver that runs a scenario by name and
prints one JSON document; these checks are the same for all."""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from harness.processes import Server

Driver = Callable[[str, Server, str, str], Any]
SCENARIO_S = 100
STORE_TIMES_S = 6
"""What is as old as this is skipped also where a broker finds the start by the time."""


def run(command: list[str], env: dict[str, str] | None = None) -> Any:
    done = subprocess.run(command, capture_output=True, timeout=SCENARIO_S, check=False, env=env)
    output = done.stdout.decode()
    assert done.returncode == 0, f"{' '.join(command)}\n{output}\n{done.stderr.decode()[-4000:]}"
    return json.loads(output.strip().splitlines()[-1])


def fresh(server: Server, kind: str = "NORMAL", settings: Sequence[str] = ()) -> tuple[str, str]:
    """A topic and the name of a group. Its first consumer makes the group, as applications do,
    unless it needs `settings`; in either case it starts at what is sent after that."""
    name = uuid4().hex[:8]
    topic, group = f"topic-{name}", f"group-{name}"
    server.cli("topic", "create", topic, "--queues", "4", "--type", kind)
    if settings:
        server.cli("group", "create", group, *settings)
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


def check_away(driver: Driver, server: Server) -> None:
    """A group has started when its consumer has, at every broker, though it received nothing: what
    is sent while the consumer is away waits for it, and what was sent before never comes."""
    topic, group = fresh(server)
    server.cli("send", topic, "before", "--count", "8")
    time.sleep(STORE_TIMES_S)
    seen = driver("away", server, topic, group)
    assert sorted(message["id"] for message in seen["messages"]) == sorted(seen["sent"])


def check_wakes(driver: Driver, server: Server) -> None:
    """A receive that waits at one broker for 20 s is woken by a message at another one."""
    seen = driver("wakes", server, *fresh(server))
    assert len(seen["waited_s"]) == 6
    assert max(seen["waited_s"]) < 12, seen  # a busy machine needs seconds; without it: 20


def check_redelivery(driver: Driver, server: Server) -> None:
    """Not acked in time: it is redelivered, with its attempt counted; the old handle is void."""
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
    """A push consumer gets each message once; one that failed is redelivered with attempt 2."""
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
    seen = driver("fifo", server, *fresh(server, "FIFO", ["--fifo"]))
    assert [message["body"] for message in seen["messages"]] == [f"m-{i}" for i in range(256)]
    assert seen["seconds"] < 60


def check_fifo_push(driver: Driver, server: Server) -> None:
    """Three message groups: one that fails is redelivered before what is behind it."""
    seen = driver("fifo_push", server, *fresh(server, "FIFO", ["--fifo"]))
    bodies = [message["body"] for message in seen["messages"]]
    for name in "abc":
        numbers = [int(body[2:]) for body in bodies if body.startswith(name)]
        failed = [3] if name == "a" else []
        assert numbers == [0, 1, 2, *failed, *range(3, 10)], bodies


def check_delay(driver: Driver, server: Server) -> None:
    """Some seconds later, never early, with its time; the recalled one never, and then it is too
    late to recall the other."""
    seen = driver("delay", server, *fresh(server, "DELAY"))
    assert [message["body"] for message in seen["messages"]] == ["later"]
    assert seen["recalled"] == seen["sent"][1]
    assert seen["due_ms"] <= seen["came_ms"] < seen["due_ms"] + 8_000
    assert seen["told_due_ms"] == seen["due_ms"]
    assert "cannot be recalled any more" in seen["too_late"]


def check_transaction(driver: Driver, server: Server) -> None:
    """One is committed, one rolled back, two are forgotten: the server asks about these, each once,
    and the checker commits the one and rolls back the other."""
    seen = driver("transaction", server, *fresh(server, "TRANSACTION"))
    assert sorted(message["body"] for message in seen["messages"]) == ["commit", "forgotten-commit"]
    assert sorted(seen["asked"]) == ["forgotten-commit", "forgotten-rollback"]


def check_dead_letters(driver: Driver, server: Server) -> None:
    """What fails at its last attempt comes no more, and is listed."""
    topic, group = fresh(server, settings=["--max-attempts", "2", "--retry-policy", "1s"])
    seen = driver("dead_letters", server, topic, group)
    attempts = [(message["body"], message["attempt"]) for message in seen["messages"]]
    wanted = [("body-0", 1), ("body-1", 1), ("body-1", 2), ("body-2", 1), ("body-3", 1)]
    assert sorted(attempts) == wanted
    assert _dead(server, group) == [topic]


def check_fifo_dead_letters(driver: Driver, server: Server) -> None:
    """The same in order: what is behind it waits until then, and comes. This client counts the
    attempts by itself, and says when they are used up."""
    topic, group = fresh(server, "FIFO", ["--fifo", "--max-attempts", "2"])
    seen = driver("fifo_dead_letters", server, topic, group)
    bodies = [message["body"] for message in seen["messages"]]
    assert bodies == ["body-0", "body-1", "body-1", "body-2", "body-3"]
    assert _dead(server, group) == [topic]


def _dead(server: Server, group: str) -> list[str]:
    """Of each dead letter the topic it comes from."""
    document: Any = server.cli("dlq", "list", group)
    return [letter["topic"] for letter in document["letters"]]


CHECKS = [
    check_away,
    check_wakes,
    check_dead_letters,
    check_fifo_dead_letters,
    check_delay,
    check_transaction,
    check_round_trip,
    check_redelivery,
    check_change_invisible,
    check_tag_filter,
    check_sql_filter,
    check_push,
    check_fifo,
    check_fifo_push,
]
"""Of a cluster as it is by default."""
FRONT_CHECKS = [check_round_trip, check_push, check_slow_push, check_transaction]
"""Of each front and of a standalone: single answers, streams, and what is asked of clients."""
