"""The exchanges: who wrote, who reads, and what must hold. Each step prints what it found."""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketmq_store import compare, mix, ours
from rocketmq_store.compare import Different, Tables, agree
from rocketmq_store.mix import Item
from rocketmq_store.ours import Opened, Taken
from rocketmq_store.theirs import Line, RocketMQ, rocketmq

from popmq_common.records.names import LEVELS_TOPIC

GROUPS: Final = {"done": False, "half": False, "again": False, "dead": False, "lined": True}
"""Whether it is a FIFO group."""
LATE: Final = "late"
"""A group that starts behind what PopMQ has stored."""
LEASE_S: Final = 60.0
SHORT_S: Final = 10.0
"""RocketMQ's proxy takes no shorter lease."""
GRACE_S: Final = 60.0
"""RocketMQ finds a lease's end some seconds late."""
TAKEN_MAX: Final = 2_000
MORE_SHARE: Final = 20
DELAYED, HALF, RENEWED = "later", "maybe", "renewed"
SEED: Final = 7
VIEWED_MAX: Final = 1_000
GZIPPED: Final = 1
"""gRPC clients write gzip, and RocketMQ's Java clients take that for zlib: `viewMessage` fails."""
DUE_S: Final = 90.0
"""When the last of `special` is due, after it was written."""
DELAYS_ARE_SERVED = True
"""PopMQ takes over what waits for its time: until then it must only not come twice."""


@dataclass
class Exchange:
    """A folder for one run, and what every run needs."""

    folder: Path
    classes: Path
    count: int
    pool: bytes = b""
    found: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pool_path = self.folder / "pool"
        self.pool = mix.make_pool(self.pool_path, SEED)

    def tell(self, text: str) -> None:
        took_s = time.monotonic() - self._began
        print(f"{self.folder.name:>12} {took_s:6.1f} s  {text}", flush=True)

    def copy(self, folder: Path, name: str) -> Path:
        """Of a directory, for PopMQ: without what it does not read."""
        target = self.folder / name
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("timerwheel", "timerlog"))
        return target


def everything() -> list[Line]:
    topics: list[Line] = [
        {"topic": name, "queues": queues, "type": kind}
        for name, (queues, kind) in mix.TOPICS.items()
    ]
    topics += [{"topic": DELAYED, "queues": 2, "type": "DELAY"}]
    topics += [{"topic": HALF, "queues": 2, "type": "TRANSACTION"}]
    return topics + [{"group": group, "fifo": fifo} for group, fifo in GROUPS.items()]


async def consume(endpoint: str, count: int, *, rejects: bool) -> dict[str, Taken]:
    """Groups in every state: done, dead letters, retry copies, live leases, out of order."""
    some = min(count // 10, TAKEN_MAX)
    taken = {
        "done": await ours.take(endpoint, "events", "done", some, invisible_s=LEASE_S, acked=1),
        "again": await ours.take(
            endpoint, mix.LONG_NAME, "again", 20, invisible_s=SHORT_S, acked=0.25
        ),
        "lined": await ours.take(endpoint, "steps", "lined", 40, invisible_s=LEASE_S, acked=0.5),
    }
    if rejects:
        taken["dead"] = await ours.take(
            endpoint, "orders", "dead", 40, invisible_s=LEASE_S, acked=0.5, rejected=True
        )
    await asyncio.sleep(SHORT_S + 6)  # the leases of `again` end and are copied
    taken["half"] = await ours.take(
        endpoint, "orders", "half", some, invisible_s=LEASE_S, acked=0.5
    )
    return taken


async def go_on(exchange: Exchange, endpoint: str, taken: dict[str, Taken]) -> None:
    """What was held is redelivered, what was acked does not. Raises `Different`."""
    for group, topic in (("again", mix.LONG_NAME), ("half", "orders"), ("lined", "steps")):
        held = taken[group]
        came = await ours.until_all_came(
            endpoint, topic, group, held.held, seconds=LEASE_S + GRACE_S
        )
        missing, twice = held.held - came, held.acked & came
        text = f"group {group}: {len(held.held)} held, {len(missing)} of them lost, "
        exchange.tell(text + f"{len(twice)} of {len(held.acked)} acked came again")
        if missing or (twice and not GROUPS[group]):
            raise Different(f"group {group}: lost {sorted(missing)[:9]}, again {sorted(twice)[:9]}")


async def check_start(exchange: Exchange, endpoint: str, items: Sequence[Item]) -> None:
    """The group that started with PopMQ gets what was sent since, and nothing before. Raises
    `Different`."""
    wanted = {item.number for item in items if item.topic == "events"}
    came = await ours.until_all_came(endpoint, "events", LATE, wanted, seconds=GRACE_S)
    agree(f"group {LATE}", (f"message {number}" for number in sorted(wanted ^ came)))
    exchange.tell(f"group {LATE}: the {len(came)} messages since its start came, no other")


def check_read(exchange: Exchange, opened: Opened, rows: Sequence[Line], tables: Tables) -> None:
    """Both read the same; `opened` is the older state. Raises `Different`."""
    agree("messages", compare.rows_differ(opened.rows, compare.by_place(rows)))
    agree("tables", compare.tables_differ(opened, tables))
    positions = len(opened.positions.keys() & tables.positions.keys())
    text = f"{len(opened.rows)} messages of {len(opened.ends)} queues, {len(opened.topics)} topics"
    exchange.tell(f"the same to both: {text}, {positions} positions")


def check_log(exchange: Exchange, complaints: Sequence[str]) -> None:
    agree("RocketMQ's log", complaints)
    exchange.tell("RocketMQ's log has nothing against the files")


async def ours_to_theirs(exchange: Exchange) -> None:
    """PopMQ writes, RocketMQ reads and goes on, PopMQ takes it back. Raises `Different`."""
    items = list(mix.items(exchange.count, SEED))
    with ours.popmq(exchange.folder / "ours") as server:
        for name, (queues, kind) in mix.TOPICS.items():
            server.cli("topic", "create", name, "--queues", str(queues), "--type", kind)
        for group, fifo in GROUPS.items():
            more = ["--fifo"] if fifo else []
            server.cli("group", "create", group, "--from", "first", *more)
        await ours.send(server.endpoint, items, exchange.pool)
        exchange.tell(f"PopMQ stored {len(items)} messages")
        server.cli("group", "create", LATE)
        started = await ours.take(server.endpoint, "events", LATE, 1, invisible_s=LEASE_S, acked=1)
        agree("a group that starts now", map(str, sorted(started.acked)))
        taken = await consume(server.endpoint, exchange.count, rejects=True)
    source = exchange.folder / "ours" / "broker-a"
    opened = await ours.open_directory(exchange.copy(source, "as-ours"))
    sent = ours.numbers_sent(opened.rows.values(), list(mix.TOPICS))
    agree("what was sent", compare.bodies_differ(items, sent, exchange.pool))
    directory = exchange.folder / "next" / "broker-a"
    shutil.copytree(source, directory)
    more_items = list(mix.items(max(100, exchange.count // MORE_SHARE), 8, first=exchange.count))
    with rocketmq(
        exchange.folder / "home",
        directory,
        exchange.classes,
        with_proxy=True,
        settings={"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"},
    ) as judge:
        rows = judge.rows()
        check_read(exchange, opened, rows, Tables(judge.state()))
        check_view(exchange, judge, rows)
        await go_on(exchange, judge.endpoint, taken)
        judge.write([item.line() for item in more_items], exchange.pool_path)
        exchange.tell(f"RocketMQ stored {len(more_items)} messages behind them")
        await check_start(exchange, judge.endpoint, more_items)
        last, tables = judge.rows(), Tables(judge.state())
    check_log(exchange, judge.complaints())
    await take_over(exchange, directory, last, tables, items + more_items)


async def take_over(
    exchange: Exchange, directory: Path, rows: Sequence[Line], tables: Tables, items: list[Item]
) -> Opened:
    """PopMQ opens what RocketMQ has left, and serves it. Raises `Different`."""
    opened = await ours.open_directory(exchange.copy(directory, "as-theirs"), search=True)
    agree("messages", compare.rows_differ(compare.by_place(rows), opened.rows))
    sent = ours.numbers_sent(opened.rows.values(), list(mix.TOPICS))
    agree("what was sent", compare.bodies_differ(items, sent, exchange.pool))
    agree("tables", compare.tables_kept(tables, opened))
    agree("keys", compare.keys_differ(ours.keys_of(opened.rows.values()), opened.found))
    exchange.tell(f"PopMQ read all of RocketMQ's: {len(rows)} messages, {len(items)} as sent")
    exchange.tell(f"and found all messages by {len(opened.found)} keys and ids")
    return opened


def check_view(exchange: Exchange, judge: RocketMQ, rows: Sequence[Line]) -> None:
    """Messages by their place in the log: some; by key and by id: all. Raises `Different`."""
    users = [row for row in rows if row["topic"] in mix.TOPICS and not row["sys"] & GZIPPED]
    wanted = users[:: max(1, len(users) // VIEWED_MAX)]
    found = judge.view([{"topic": row["topic"], "log": row["log"]} for row in wanted])
    agree("viewMessage", (f"{a}, {b}" for a, b in zip(wanted, found, strict=True) if a != b))
    exchange.tell(f"viewMessage found {len(found)} messages")
    keys = ours.keys_of(rows)
    agree("queryMessage", compare.keys_differ(keys, judge.find(keys)))
    exchange.tell(f"queryMessage found all messages by {len(keys)} keys and ids")


async def theirs_to_ours(exchange: Exchange, *, killed: bool) -> None:
    """RocketMQ writes and ends, or is killed; PopMQ goes on. Raises `Different`."""
    items = list(mix.items(exchange.count, SEED))
    directory = exchange.folder / "next" / "broker-a"
    directory.mkdir(parents=True)
    with rocketmq(exchange.folder / "home", directory, exchange.classes, with_proxy=True) as server:
        server.set_up(everything())
        later = special(items, exchange.count)
        server.write([item.line() for item in items] + later, exchange.pool_path)
        due_s = time.monotonic() + DUE_S
        exchange.tell(f"RocketMQ stored {len(items)} messages, and delayed and half ones")
        for count in (30, 10):
            server.judge("delete", RENEWED)
            server.set_up([{"topic": RENEWED, "queues": 1, "type": "NORMAL"}])
            server.write([_plain(i) for i in range(count)], exchange.pool_path)
        taken = await consume(server.endpoint, exchange.count, rejects=False)
        rows, tables = server.rows(), Tables(server.state())
        if killed:
            server.wait_flushed(tables.positions)
            server.kill()
    exchange.tell("RocketMQ was killed" if killed else "RocketMQ has stopped")
    opened = await take_over(exchange, directory, rows, tables, items)
    unsure = unsure_of_levels(opened, server.level_offsets())
    with ours.popmq(exchange.folder / "next") as popmq:
        await go_on(exchange, popmq.endpoint, taken)
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
    check_delayed(exchange, await ours.open_directory(directory), later, unsure)


def unsure_of_levels(opened: Opened, flushed: Mapping[int, int]) -> set[int]:
    """Messages with a delay level that RocketMQ has delivered, and its files do not know it: after
    kill -9 it would deliver them again itself. None after a stop."""
    came = {row["properties"]["number"] for row in opened.rows.values() if row["topic"] == DELAYED}
    waited = {
        row["properties"]["number"]
        for (topic, queue, offset), row in opened.rows.items()
        if topic == LEVELS_TOPIC and offset >= flushed.get(queue + 1, 0)
    }
    return {int(number) for number in came & waited}


def check_delayed(
    exchange: Exchange, opened: Opened, sent: Sequence[Line], unsure: Collection[int]
) -> None:
    """Whichever broker's turn it was, a message comes at its time, once; those of `unsure` may come
    twice. Raises `Different`."""
    came = Counter(
        int(row["properties"]["number"]) for row in opened.rows.values() if row["topic"] == DELAYED
    )
    wanted = {line["number"] for line in sent if line["topic"] == DELAYED}
    missing = wanted - came.keys()
    twice = [n for n, count in came.items() if count > (2 if n in unsure else 1)]
    text = f"{len(wanted)} sent, {len(missing)} have not come, {len(twice)} came twice"
    text += f", {len(unsure)} may"
    exchange.tell(f"delayed messages: {text}")
    if twice or (missing and DELAYS_ARE_SERVED):
        raise Different(f"delayed messages: {text}")


def _plain(number: int) -> Line:
    item: Line = {"number": number, "topic": RENEWED, "at": number, "size": 10, "zip": False}
    return {**item, "tag": None, "keys": [], "properties": {"number": str(number)}}


def special(items: Sequence[Item], first: int) -> list[Line]:
    """Delayed messages by level and by time, and transactions of each fate."""
    kinds: list[Line] = [{"level": 1}, {"level": 5}, {"delayMs": 3_000}, {"delayMs": 75_000}]
    kinds += [{"fate": "commit"}, {"fate": "rollback"}, {"fate": "pending"}]
    made = []
    for i in range(min(10 * len(kinds), len(items))):
        line = {**items[i].line(), **kinds[i % len(kinds)], "number": first + i, "zip": False}
        line.pop("group", None)
        line["topic"] = HALF if "fate" in line else DELAYED
        line["properties"] = {"number": str(first + i)}
        made.append(line)
    return made
