"""The history of a run: what clients were told, what was done to servers, what was stored.

A file of JSON objects, one a line; `what` tells its kind:

    run       the seed and the settings, first
    call      a client's call: see `Call`
    fault     see `Fault`
    stored    a message in a queue, when all had ended: see `Stored`
    replica   the log of a replica then: see `ReplicaLog`
    trouble   what the campaign itself found wrong: a server that ended, a group that did not heal

A message's body is its name, KIND/LINE/NUMBER (tests/chaos/events.py). The line's first letter:

    n   in no order                        d   delayed
    f   a message group                    t   of a transaction
    p   a message group nobody consumes: it tells when brokers serve
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TextIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    what: ClassVar[str] = "call"
    kind: str
    """Of client: sdk, python, go."""
    name: str
    """send, receive, ack, nack; of a transaction: half, settle, asked."""
    began_s: float
    ended_s: float
    """By the wall clock."""
    body: str
    """Empty for a receive that failed."""
    error: str = ""
    """Empty: it was answered OK."""
    attempt: int = 0
    message_id: str = ""
    queue_offset: int = -1
    """-1: not known."""
    place: str = ""
    """BROKER/QUEUE of a message that was received; of a probe nobody knows."""
    until_s: float = 0.0
    """Of a delayed message: when it is due. Of a nack: when its delay is over."""
    commit: bool | None = None
    """How a transaction was decided; of an answer to a question None: not known yet."""

    @property
    def line(self) -> str:
        return self.body.rpartition("/")[0]

    @property
    def number(self) -> int:
        return int(self.body.rpartition("/")[2])


def letter(body: str) -> str:
    """The first one of the body's line."""
    return body.split("/")[1][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    what: ClassVar[str] = "fault"
    name: str
    target: str
    """The process, or between whom a link was cut."""
    role: str
    """primary, backup; empty for what is no replica."""
    broker: str
    """Empty: all are concerned."""
    began_s: float
    healed_s: float
    """From then on it is over; a process that was ended listens again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    what: ClassVar[str] = "stored"
    broker: str
    topic: str
    queue_id: int
    queue_offset: int
    body: str
    message_id: str

    @property
    def place(self) -> tuple[str, str, int, int]:
        return self.broker, self.topic, self.queue_id, self.queue_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    what: ClassVar[str] = "replica"
    broker: str
    replica: str
    log_start: int
    log_end: int
    commit_point: int
    """What the replica knew to be committed, before it was killed."""
    compared_end: int
    """Up to there its log was compared with the one of the replica named first."""
    differs_at: int | None
    """The first byte of the log that differs; None: none."""
    damage: tuple[str, ...] = ()
    """What `popmq store check` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    what: ClassVar[str] = "trouble"
    at_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    what: ClassVar[str] = "run"
    seed: int
    began_s: float
    settings: dict[str, Any]


Entry = Run | Call | Fault | Stored | ReplicaLog | Trouble
KINDS: dict[str, type[Any]] = {
    kind.what: kind for kind in (Run, Call, Fault, Stored, ReplicaLog, Trouble)
}


@dataclass(slots=True)
class History:
    runs: list[Run] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    replicas: list[ReplicaLog] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        lists: dict[str, list[Any]] = {
            "run": self.runs,
            "call": self.calls,
            "fault": self.faults,
            "stored": self.stored,
            "replica": self.replicas,
            "trouble": self.troubles,
        }
        lists[entry.what].append(entry)


def write(out: TextIO, entries: Iterable[Entry]) -> None:
    for entry in entries:
        out.write(json.dumps({"what": entry.what, **asdict(entry)}) + "\n")


def read(path: Path) -> History:
    """Raises `ValueError` for a line that is none of a history."""
    history = History()
    with open(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                fields = json.loads(line)
                kind = KINDS[fields.pop("what")]
                if "damage" in fields:
                    fields["damage"] = tuple(fields["damage"])
                history.add(kind(**fields))
            except (ValueError, KeyError, TypeError, AttributeError) as wrong:
                raise ValueError(
                    f"{path} line {number} is no part of a history: {wrong}"
                ) from wrong
    return history


def of(entries: Sequence[Entry]) -> History:
    history = History()
    for entry in entries:
        history.add(entry)
    return history


def calls_of(kind: str, path: Path) -> Iterator[Call]:
    """What a client wrote down, as in tests/chaos/events.py, and more. A last line that is not
    whole belongs to a client that was killed."""
    with open(path) as lines:
        for line in lines:
            if not line.endswith("\n"):
                return
            fields = json.loads(line)
            fields["name"] = fields.pop("what")
            yield Call(kind=kind, **fields)
