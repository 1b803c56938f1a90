"""How much load there is, and its clients: enough to meet every fault, little for two cores."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from chaos import load as official
from chaos.clients import official_go, official_python
from chaos.cluster import TESTS, Load

from popmq_admin.v1 import admin_pb2 as admin

CLIENTS: Final = ("sdk", "python", "go")
QUEUES: Final = 4
MAX_ATTEMPTS: Final = 10_000
TYPES: Final = {
    "normal": "NORMAL",
    "fifo": "FIFO",
    "delay": "DELAY",
    "transaction": "TRANSACTION",
    "probe": "FIFO",
}
"""Of the SDK's topics, by their name; a group has the name of its topic."""
CONSUMED: Final = ("normal", "fifo", "delay", "transaction")
LINES: Final = 3
"""Senders of each kind: normal ones, and message groups."""
GAP_S: Final = 0.1
"""Between two sends of a sender."""
FIFO_GAP_S: Final = 0.15
DELAY_GAP_S: Final = 0.3
DELAYS_S: Final = (0.3, 8.0)
TRANSACTION_GAP_S: Final = 0.4
COMMITTED: Final = 0.7
LEFT_TO_CHECK: Final = 0.33
PROBE_LINES: Final = 8
PROBE_GAP_S: Final = 0.4
PROBES_MAX: Final = 30
"""Of a line, unanswered."""
PROBE_S: Final = 6.0
CALL_S: Final = 10.0
"""Longer than a proxy waits for a broker."""
POLL_S: Final = 2.0
INVISIBLE_S: Final = 12.0
PAUSE_S: Final = 0.1
RECEIVE_MAX: Final = 16
RECEIVERS: Final = 2
ACKED: Final = 0.92
NACKED: Final = 0.06
NACK_S: Final = 2.0
TRIES: Final = {"sdk": 1, "python": 3, "go": 3}
"""How often a client of that kind sends what has no answer."""


def lease_s(kinds: Collection[str]) -> float:
    """The longest of these clients: what was let go of comes when it is over."""
    return max(INVISIBLE_S if kind == "sdk" else official.INVISIBLE_S for kind in kinds)


def topic(start: str, name: str) -> str:
    return f"{start}-{name}"


def topics_of(kind: str, start: str) -> dict[str, str]:
    """Topic → its type; those that are consumed have a group of their name."""
    if kind == "sdk":
        return {topic(start, name): type_ for name, type_ in TYPES.items()}
    return {f"{start}-{kind}": "NORMAL", f"{start}-{kind}-fifo": "FIFO"}


def create(ask: Callable[[str, Any], Any], kinds: Sequence[str], start: str) -> None:
    """The topics and groups. `ask`: an admin call by its name."""
    for kind in kinds:
        for name, type_ in topics_of(kind, start).items():
            made = admin.Topic(name=name, queues=QUEUES, message_type=type_)
            ask("CreateTopic", admin.CreateTopicRequest(topic=made))
            group = admin.Group(
                name=name, fifo=type_ == "FIFO", max_attempts=MAX_ATTEMPTS, consume_from="FIRST"
            )
            ask("CreateGroup", admin.CreateGroupRequest(group=group))


@contextmanager
def running(
    folder: Path, kinds: Sequence[str], endpoints: str, start: str
) -> Iterator[dict[str, Load]]:
    """The clients at work; at the end they have stopped."""
    loads = {kind: _load(folder, kind, endpoints, start) for kind in kinds}
    try:
        for load in loads.values():
            load.start()
        yield loads
    finally:
        for load in loads.values():
            if load.running is not None:
                load.end()


def _load(folder: Path, kind: str, endpoints: str, start: str) -> Load:
    made = Load(kind, [], {}, folder)
    home = {"HOME": str(folder)}  # official clients write logs there
    if kind == "sdk":
        made.command = [sys.executable, "-m", "torture.sdk_load", endpoints, start]
        made.command.append(str(made.events))
        made.env = {"PYTHONPATH": str(TESTS)}
        return made
    free, fifo = topics_of(kind, start)
    if kind == "python":
        program = str(TESTS / "chaos" / "official_python.py")
        names = [endpoints, free, fifo, free, fifo, str(made.events)]
        made.command = [str(official_python()), program, *names]
        made.env = home
        return made
    amounts = (
        official.GAP_S, official.FIFO_GAP_S, official.FIFO_LINES, official.INVISIBLE_S,
        official.POLL_S, official.RECEIVE_MAX, official.PAUSE_S,
    )  # fmt: skip
    names = [endpoints, free, free, fifo, fifo, str(made.events)]
    made.command = [str(official_go(folder)), "chaos", *names, *map(str, amounts)]
    made.env = {**home, "rocketmq.client.enableSsl": "false"}
    return made
