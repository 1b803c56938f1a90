"""Does the judge of the torture see what it is for? Each planted violation is found under its
rule, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
from torture import history
from torture.history import Call, Entry, ReplicaLog, Stored, Trouble
from torture.judge import judge

TOPIC = "torture-normal"


def send(body: str, at_s: float, *, error: str = "", **more: object) -> Call:
    made = Call(kind="sdk", name="send", began_s=at_s, ended_s=at_s, body=body, error=error)
    return replace(made, **more)  # type: ignore[arg-type]


def receive(body: str, at_s: float, *, began_s: float | None = None, **more: object) -> Call:
    since_s = at_s if began_s is None else began_s
    made = Call(kind="sdk", name="receive", began_s=since_s, ended_s=at_s, body=body, attempt=1)
    return replace(made, **more)  # type: ignore[arg-type]


def ack(body: str, at_s: float, *, error: str = "") -> Call:
    return Call(kind="sdk", name="ack", began_s=at_s, ended_s=at_s, body=body, error=error)


def nack(body: str, at_s: float, until_s: float) -> Call:
    made = Call(kind="sdk", name="nack", began_s=at_s, ended_s=at_s, body=body)
    return replace(made, until_s=until_s)


def half(body: str, at_s: float, *, commit: bool, error: str = "") -> Call:
    made = Call(kind="sdk", name="half", began_s=at_s, ended_s=at_s, body=body, error=error)
    return replace(made, commit=commit)


def settle(body: str, at_s: float, *, commit: bool, error: str = "", name: str = "settle") -> Call:
    return replace(half(body, at_s, commit=commit, error=error), name=name)


def placed(body: str, offset: int, message_id: str = "", queue_id: int = 0) -> Stored:
    return Stored(
        broker="broker-a",
        topic=TOPIC,
        queue_id=queue_id,
        queue_offset=offset,
        body=body,
        message_id=message_id,
    )


def rules(*entries: Entry) -> list[str]:
    """Of what was found. Where the test says of no message where it is, each is stored once."""
    if any(isinstance(entry, Stored) for entry in entries):
        return [one.rule for one in judge(history.of(entries))]
    ok = [one for one in entries if isinstance(one, Call) and one.name in ("send", "half")]
    offsets = count(1_000)
    bodies = dict.fromkeys(one.body for one in ok if not one.error and one.commit is not False)
    rest = [placed(body, next(offsets)) for body in bodies]
    return [one.rule for one in judge(history.of([*entries, *rest]))]


A, B = "sdk/n0/0", "sdk/n0/1"
F = [f"sdk/f0/{number}" for number in range(4)]
D, T, P = "sdk/d0/0", "sdk/t0/0", "sdk/p0/0"
LOG = ReplicaLog(
    broker="broker-a",
    replica="a1",
    log_start=0,
    log_end=900,
    commit_point=900,
    compared_end=900,
    differs_at=None,
)

VIOLATIONS: dict[str, tuple[str, list[Entry]]] = {
    "sent OK, never came": ("lost", [send(A, 1)]),
    "committed by its producer, never came": (
        "lost",
        [half(T, 1, commit=True), settle(T, 2, commit=True)],
    ),
    "its outcome is known by the check, never came": ("lost", [half(T, 1, commit=True)]),
    "sent OK, in no queue": (
        "not stored",
        [send(A, 1), receive(A, 2), send(B, 3, error="?"), placed(B, 1)],
    ),
    "a probe, in no queue": ("not stored", [send(P, 1), send(B, 3, error="?"), placed(B, 1)]),
    "stored twice by one try": (
        "stored again",
        [send(A, 1), receive(A, 2), placed(A, 1), placed(A, 2)],
    ),
    "a rolled back one in a queue": ("stored again", [half(T, 1, commit=False), placed(T, 1)]),
    "told another queue offset": (
        "other place",
        [send(A, 1, message_id="7", queue_offset=3), receive(A, 2), placed(A, 4, "7")],
    ),
    "stored under another id": (
        "other place",
        [send(A, 1, message_id="7", queue_offset=3), receive(A, 2), placed(A, 3, "8")],
    ),
    "an offset given twice": (
        "one place twice",
        [send(A, 1), send(B, 1), receive(A, 2), receive(B, 2), placed(A, 3), placed(B, 3)],
    ),
    "an offset given again after a fail-over": (
        "one place twice",
        [
            *(send(body, 1) for body in F[:2]),
            receive(F[0], 2, place="broker-a/0", queue_offset=3, message_id="7"),
            ack(F[0], 3),
            receive(F[1], 9, place="broker-a/0", queue_offset=3, message_id="8"),
        ],
    ),
    "came after its ack": ("again", [send(A, 1), receive(A, 2), ack(A, 3), receive(A, 4)]),
    "came after the acks of both copies": (
        "again",
        [
            send(A, 1, error="gone"),
            send(A, 1.5),
            placed(A, 1),
            placed(A, 2),
            receive(A, 2),
            ack(A, 3),
            receive(A, 4),
            ack(A, 5),
            receive(A, 6),
        ],
    ),
    "first deliveries out of order": (
        "order",
        [
            *(send(body, 1) for body in F[:2]),
            receive(F[1], 2, began_s=1.5),
            receive(F[0], 2.001, began_s=1.5),
        ],
    ),
    "came while an earlier one was out": (
        "turn",
        [*(send(body, 1) for body in F[:2]), receive(F[0], 2), receive(F[1], 3)],
    ),
    "came before the earlier one's ack was begun": (
        "turn",
        [*(send(body, 1) for body in F[:2]), receive(F[0], 2), receive(F[1], 3), ack(F[0], 4)],
    ),
    "delayed, came early": ("early", [send(D, 1, until_s=5), receive(D, 4.9)]),
    "nacked, came early": ("early", [send(A, 1), receive(A, 2), nack(A, 3, 5), receive(A, 4)]),
    "rolled back, came": (
        "transaction",
        [half(T, 1, commit=False), settle(T, 2, commit=False), receive(T, 3)],
    ),
    "came before its commit": (
        "transaction",
        [half(T, 1, commit=True), receive(T, 2), settle(T, 3, commit=True)],
    ),
    "its half message is gone": (
        "transaction",
        [
            half(T, 1, commit=True),
            settle(T, 2, commit=True, error="no such one (INVALID_TRANSACTION_ID)"),
            receive(T, 3),
        ],
    ),
    "nobody sent it": ("unknown", [receive(A, 2)]),
    "nobody sent it, and it is stored": ("unknown", [placed(A, 2)]),
    "logs differ": ("replicas", [replace(LOG, differs_at=17)]),
    "a log is damaged": ("replicas", [replace(LOG, damage=("entry 4: …",))]),
    "a server ended": ("trouble", [Trouble(at_s=1, text="a1 ended by itself with 70")]),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_planted_violation_is_found(name: str) -> None:
    rule, entries = VIOLATIONS[name]
    assert rules(*entries) == [rule]


RIGHT: dict[str, Callable[[], list[Entry]]] = {
    "a send without an answer may be stored": lambda: [send(A, 1, error="?"), placed(A, 1)],
    "and it may not": lambda: [send(A, 1, error="?"), send(B, 2), receive(B, 3)],
    "a try without an answer, and one more": lambda: [
        send(A, 1, error="?"),
        send(A, 2),
        placed(A, 1),
        placed(A, 2),
        receive(A, 3),
        ack(A, 4),
        receive(A, 5),
        ack(A, 6),
    ],
    "an official client tries again by itself": lambda: [
        send("go/n0/0", 1, kind="go"),
        *(placed("go/n0/0", offset) for offset in range(3)),
        receive("go/n0/0", 2),
    ],
    "a receive that began before the ack's answer": lambda: [
        send(A, 1),
        receive(A, 2),
        ack(A, 3),
        receive(A, 4, began_s=2.9),
    ],
    "the same offset, of a retry topic": lambda: [
        *(send(body, 1) for body in (A, B)),
        receive(A, 2, place="broker-a/0", queue_offset=3),
        receive(B, 2, place="broker-a/0", queue_offset=3, attempt=2),
    ],
    "an ack without an answer": lambda: [
        send(A, 1),
        receive(A, 2),
        ack(A, 3, error="?"),
        receive(A, 4),
    ],
    "a message group, one after the other": lambda: [
        *(send(body, 1) for body in F),
        receive(F[0], 2),
        receive(F[1], 2),  # with it
        ack(F[1], 3),
        ack(F[0], 3, error="?"),
        receive(F[2], 4),
        receive(F[2], 5, attempt=2),
        ack(F[2], 6),
        receive(F[3], 7),
    ],
    "a message whose send failed holds nothing up": lambda: [
        send(F[0], 1, error="?"),
        send(F[0], 2),
        send(F[1], 3),
        receive(F[0], 4),
        ack(F[0], 5),
        receive(F[1], 6),
    ],
    "delayed, in time": lambda: [send(D, 1, until_s=5.0009), receive(D, 5.0)],
    "nacked, in time": lambda: [send(A, 1), receive(A, 2), nack(A, 3, 5), receive(A, 5)],
    "rolled back": lambda: [half(T, 1, commit=False), settle(T, 2, commit=False)],
    "committed by the check": lambda: [
        half(T, 1, commit=True),
        settle(T, 4, commit=True, name="asked"),
        receive(T, 5),
    ],
    "a half message without an answer": lambda: [half(T, 1, commit=True, error="?")],
    "probes come to nobody": lambda: [send(P, 1)],
    "equal logs": lambda: [LOG, replace(LOG, replica="a2")],
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_held_against_anybody(name: str) -> None:
    assert rules(*RIGHT[name]()) == []


def test_where_nobody_has_looked_into_queues_every_try_may_be_a_copy() -> None:
    came = [send(A, 1, error="?"), send(A, 2), receive(A, 3), ack(A, 4), receive(A, 5), ack(A, 6)]
    assert judge(history.of(came)) == []
    assert [one.rule for one in judge(history.of([*came, receive(A, 7)]))] == ["again"]
