"""Messages that wait while the directory changes hands: each comes once, whoever's turn it is.

Three turns: PopMQ, RocketMQ, PopMQ, or the other way round. The first broker takes delayed and half
messages; some are due or settled in its own turn, some in each later one, some are recalled, and
some are due in days and must still wait at the end.
"""

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.processes import POPMQ
from rocketmq_store import ours
from rocketmq_store.compare import Different
from rocketmq_store.exchange import Exchange, check_log
from rocketmq_store.theirs import Line, RocketMQ, rocketmq

from popmq import Client, ReceivedMessage, Resolution
from popmq.producer.transaction import Checker

LATER, MAYBE = "later", "maybe"
SLOWER: Final = int(os.environ.get("SLOWER") or 1)
"""A busy machine needs longer for a turn."""
DUE_S: Final = (3, 90 * SLOWER, 180 * SLOWER)
"""Of each turn, after the send."""
LEVELS: Final = (1, 5, 7)
"""The same, by RocketMQ's levels as LEVEL_DELAYS has them."""
LEVEL_DELAYS: Final = (
    f"1s 5s 10s 30s {DUE_S[1]}s 2m {DUE_S[2]}s 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
)
IMMUNITY: Final = "transactionTimeOut"
IMMUNE_MS: Final = 3_600_000
"""Until then RocketMQ asks nobody and, more important, does not write a half message again, which
its sender would not know of."""
CURIOUS_MS: Final = 3_000
FAR_S: Final = 60 * 3_600.0
"""Two and a half days: beyond RocketMQ's window, and not beyond what it takes."""
GRACE_S: Final = 10.0
CHECKS_S: Final = 40.0
"""A turn's least: RocketMQ looks for half messages every ten seconds, and asks once each time."""
SETTLED_S: Final = 3.0
"""When RocketMQ has certainly written how the transactions ended that it was told of."""
OF_EACH: Final = 5
THEIR_GROUP: Final = "judge-writer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
_SETTINGS: Final = {
    "enabledAppendPropCRC": "true",
    "forceVerifyPropCRC": "true",
    "recallMessageEnable": "true",
    "transactionCheckInterval": "10000",
    "transactionOpBatchInterval": "100",  # what it has settled it would ask about again until then
    "transactionCheckMax": "1000",
    IMMUNITY: str(IMMUNE_MS),
    "messageDelayLevel": LEVEL_DELAYS,
}


_OUR_SETTINGS: Final = {
    "POPMQ_BROKER_TRANSACTION_CHECK_INTERVAL_MS": "3000",
    "POPMQ_BROKER_TRANSACTION_CHECKS_MAX": "1000",
    "POPMQ_BROKER_DELAY_LEVELS": LEVEL_DELAYS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A message that waits: "timer", "level", "far"; "recalled" by who took it, or "taken
    back" by the next one; "half", or "ended", by its sender, in the next turn, unasked."""

    number: int
    kind: str
    turn: int
    """When it is due, or settled."""
    comes: bool

    @property
    def topic(self) -> str:
        return MAYBE if self.kind in ("half", "ended") else LATER

    @property
    def delay_s(self) -> float:
        return FAR_S if self.kind == "far" else DUE_S[self.turn]

    @property
    def named(self) -> dict[str, str]:
        fate = "commit" if self.comes else "rollback"
        return {"number": str(self.number), "turn": str(self.turn), "fate": fate}

    def line(self) -> Line:
        """For java/Writer.java."""
        line: Line = {"number": self.number, "topic": self.topic, "at": self.number, "size": 20}
        line |= {"tag": None, "keys": [f"k{self.number}"], "properties": self.named, "zip": False}
        if self.topic == MAYBE:
            return line | {"fate": self.named["fate"] if self.turn == 0 else "pending"}
        if self.kind == "level":
            return line | {"level": LEVELS[self.turn]}
        return line | {"delayMs": round(1_000 * self.delay_s), "recall": self.kind == "recalled"}


def _parcels(*, theirs: bool) -> list[Parcel]:
    kinds = [("timer", turn, True) for turn in range(3)]
    kinds += [("level", turn, True) for turn in range(3)] if theirs else []
    kinds += [("recalled", turn, False) for turn in (1, 2)] + [("far", 2, False)]
    kinds += [("half", turn, comes) for turn in range(3) for comes in (True, False)]
    if not theirs:
        kinds += [("taken back", 2, False)]
        kinds += [("ended", 1, comes) for comes in (True, False)]
    return [
        Parcel(number=i, kind=kind, turn=turn, comes=comes)
        for i, (kind, turn, comes) in enumerate(kinds * OF_EACH)
    ]


@dataclass
class Course:
    exchange: Exchange
    parcels: list[Parcel]
    sent_s: float = 0.0
    came: set[int] = field(default_factory=set)
    handles: list[str] = field(default_factory=list)
    """Of what the next broker shall recall."""

    @property
    def directory(self) -> Path:
        return self.exchange.folder / "broker-a"

    def all_sent(self) -> None:
        self.sent_s = time.monotonic()

    def left_s(self, turn: int) -> float:
        """How long this turn goes on."""
        due_s = self.sent_s + DUE_S[turn] + GRACE_S - time.monotonic()
        return max(due_s, CHECKS_S if turn else 0.0)

    def look(self, who: str, turn: int, rows: Iterable[Line]) -> None:
        """At the end of a turn. Raises `Different`."""
        counts = Counter(
            int(row["properties"]["number"]) for row in rows if row["topic"] in (LATER, MAYBE)
        )
        wanted = {p.number for p in self.parcels if p.comes and p.turn <= turn}
        known = {p.number: p for p in self.parcels}
        wrong = {
            "did not come": wanted - counts.keys(),
            "came twice": {number for number, count in counts.items() if count > 1},
            "should never come": {number for number in counts if not known[number].comes},
        }
        fresh = Counter(known[number].kind for number in counts.keys() - self.came)
        self.came |= counts.keys()
        self.exchange.tell(f"turn {turn}, of {who}: {dict(fresh)} came")
        for what, numbers in wrong.items():
            if numbers:
                some = [known[number] for number in sorted(numbers)[:5]]
                raise Different(f"turn {turn}, of {who}: {len(numbers)} {what}: {some}")
        if not fresh["timer"] or not fresh["half"]:
            raise Different(f"nothing was left for turn {turn} of {who}; is the machine so slow?")

    def look_at_end(self, waiting: int, open_halves: int) -> None:
        """Raises `Different`."""
        far = sum(parcel.kind == "far" for parcel in self.parcels)
        self.exchange.tell(f"{waiting} still wait, {open_halves} transactions are open")
        if (waiting, open_halves) != (far, 0):
            raise Different(f"{waiting} wait, not {far}; {open_halves} transactions are open")


async def ours_first(exchange: Exchange) -> None:
    """PopMQ, RocketMQ, PopMQ. Raises `Different`."""
    course = Course(exchange, _parcels(theirs=False))
    await _our_turn(course, 0)
    _hand_over(course)
    _their_turn(course, 1, group=MAYBE)
    await _our_turn(course, 2)


async def theirs_first(exchange: Exchange) -> None:
    """RocketMQ, PopMQ, RocketMQ. Raises `Different`."""
    course = Course(exchange, _parcels(theirs=True))
    _their_turn(course, 0, group=THEIR_GROUP)
    await _our_turn(course, 1)
    _hand_over(course)
    _their_turn(course, 2, group=THEIR_GROUP)
    opened = await ours.open_directory(exchange.copy(course.directory, "at-the-end"))
    course.look_at_end(opened.waiting, opened.open_halves)


async def _our_turn(course: Course, turn: int) -> None:
    exchange = course.exchange
    with ours.popmq(exchange.folder, _OUR_SETTINGS) as server:
        if turn == 0:
            server.cli("topic", "create", LATER, "--queues", "4", "--type", "DELAY")
            server.cli("topic", "create", MAYBE, "--queues", "4", "--type", "TRANSACTION")
        async with Client(server.endpoint, request_timeout_s=15.0) as client:
            if turn == 0:
                await _send(client, course)
                course.all_sent()
                exchange.tell(f"PopMQ took {len(course.parcels)} messages")
            else:
                await client.transactions.answer(MAYBE, _checker(turn))
            await asyncio.sleep(course.left_s(turn))
    opened = await ours.open_directory(exchange.copy(course.directory, f"turn-{turn}"))
    course.look("PopMQ", turn, opened.rows.values())
    if turn == 2:
        course.look_at_end(opened.waiting, opened.open_halves)


async def _send(client: Client, course: Course) -> None:
    for parcel in course.parcels:
        body, named = f"parcel {parcel.number}".encode(), parcel.named
        if parcel.topic == LATER:
            sent = await client.send(LATER, body, properties=named, delay_s=parcel.delay_s)
            if parcel.kind == "recalled":
                await client.recall(LATER, sent.recall_handle)
            if parcel.kind == "taken back":
                course.handles.append(sent.recall_handle)
            continue
        half = await client.transactions.send(MAYBE, body, properties=named)
        if parcel.turn == 0:
            await (half.commit() if parcel.comes else half.rollback())


def _checker(turn: int) -> Checker:
    async def check(message: ReceivedMessage) -> Resolution:
        if int(message.properties["turn"]) > turn:
            return Resolution.UNKNOWN
        is_commit = message.properties["fate"] == "commit"
        return Resolution.COMMIT if is_commit else Resolution.ROLLBACK

    return check


def _hand_over(course: Course) -> None:
    environ = {**os.environ, **ours.broker_settings()}
    command = [POPMQ, "store", "handover", str(course.directory), "--write"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    course.exchange.tell(done.stdout.strip())


def _their_turn(course: Course, turn: int, *, group: str) -> None:
    exchange, home = course.exchange, course.exchange.folder / f"home-{turn}"
    course.directory.mkdir(exist_ok=True)
    with rocketmq(home, course.directory, exchange.classes, settings=_SETTINGS) as server:
        if turn == 0:
            kinds = {LATER: "DELAY", MAYBE: "TRANSACTION"}
            server.set_up([{"topic": t, "queues": 4, "type": kind} for t, kind in kinds.items()])
            server.answer(group, MAYBE, turn, 1)  # so that the topics are known to all
            server.write([parcel.line() for parcel in course.parcels], exchange.pool_path)
            course.all_sent()
            exchange.tell(f"RocketMQ took {len(course.parcels)} messages")
        else:
            server.recall([{"topic": LATER, "handle": handle} for handle in course.handles])
            _end(server, course)
            time.sleep(SETTLED_S * SLOWER)
            server.judge("set", IMMUNITY, CURIOUS_MS)
        asked = server.answer(group, MAYBE, turn, course.left_s(turn))
        exchange.tell(f"RocketMQ asked {len(asked)} times about transactions")
        rows = server.rows()
    course.look("RocketMQ", turn, rows)
    check_log(exchange, server.complaints())


def _end(server: RocketMQ, course: Course) -> None:
    """As their sender would, who knows where they lie."""
    known = {str(parcel.number): parcel for parcel in course.parcels if parcel.kind == "ended"}
    server.end(
        [
            {
                "topic": MAYBE,
                "group": row["properties"]["PGROUP"],
                "id": row["properties"]["UNIQ_KEY"],
                "log": row["log"],
                "offset": row["offset"],
                "commit": known[row["properties"]["number"]].comes,
            }
            for row in server.rows()
            if row["topic"] == HALF_TOPIC and row["properties"]["number"] in known
        ]
    )
