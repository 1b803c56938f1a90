"""Delayed messages: how late are 10,000 due each second, and what does a million cost that waits?

A broker's engine in this process, on a real disk, without a network: what is measured is the
engine's own work. Late is the time from when a message is due until consumers can see it, which is
when it is on disk.
"""

import asyncio
import itertools
import os
import random
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compare import processes
from compare.failure import BenchFailure
from extremes.outcome import Figure, Outcome
from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.core.catalog.tables import TopicConfig
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.timers.timer_load import TIMERS_FILE
from popmq_broker.store.store import Run
from popmq_common.link.sends import SendDone
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_common.records import hosts, properties
from popmq_common.units import MiB
from popmq_internal.v1 import link_pb2 as link

TITLE = "10,000 delayed messages due a second, and 1,000,000 that wait"
LATE_MS = 100.0
WAITING_MIB = 64.0
TOPIC = "timed"
WAITING_MAX = 20_000_000
BATCH = 1_000
DAY_MS = 86_400_000
_IDS = itertools.count()
"""A message that comes under the id of another one is not stored."""


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rate", type=int, default=10_000, help="due each second")
    parser.add_argument("--seconds", type=int, default=10, help="for so long")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="that wait for 40 days")
    parser.add_argument("--size", type=int, default=64, help="bytes of a body")


def run(services: None, options: Namespace, say: Any) -> Outcome:
    logs.configure("error")
    options.work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=options.work) as folder:
        figures = asyncio.run(_late(Path(folder) / "late", options, say))
        figures += asyncio.run(_waiting(Path(folder) / "waiting", options, say))
    settings = {name: getattr(options, name) for name in ("rate", "seconds", "waiting", "size")}
    return Outcome("timers", settings, figures)


def _anonymous_mib() -> float:
    return processes.memory([os.getpid()]).anonymous_mib


async def opened(folder: Path) -> Broker:
    """It remembers no sends: what waits is measured alone."""
    settings = BrokerConfig(
        data_dir=folder, disk_reserve_bytes=0, known_sends_max=0, timers_max=WAITING_MAX
    )
    broker = await open_engine(settings, SystemClock())
    config = TopicConfig(name=TOPIC, read_queues=8, write_queues=8, message_type="DELAY")
    broker.state.catalog_state.topics[TOPIC] = config
    return broker


async def park(broker: Broker, dues_ms: list[int], size: int) -> None:
    for start in range(0, len(dues_ms), BATCH):
        records = [
            link.OutgoingRecord(
                body=b"x" * size,
                properties=properties.encode(
                    {properties.UNIQ_KEY: f"01{next(_IDS):032X}", properties.DELIVER_MS: str(due)}
                ),
                born_timestamp_ms=1,
                born_host=hosts.LOCAL,
            )
            for due in dues_ms[start : start + BATCH]
        ]
        send = link.Send(
            topic=TOPIC, queue_id=start // BATCH % 8, records=records, kind=link.SEND_KIND_DELAY
        )
        broker.handle_sends([link.Call(send=send)], _stored)
        await broker.state.runtime.store.durable(broker.state.runtime.store.log_end)


def _stored(reply: link.Reply | SendDone) -> None:
    if isinstance(reply, link.Reply):
        raise BenchFailure(f"a send was refused: {reply.failure}")


async def _late(folder: Path, options: Namespace, say: Any) -> list[Figure]:
    broker = await opened(folder)
    count = options.rate * options.seconds
    lead_ms = 2_000 + count // 10  # time to park them
    first_ms = time.time_ns() // 1_000_000 + lead_ms
    dues_ms = [first_ms + i * 1_000 // options.rate for i in range(count)]
    random.Random(1).shuffle(dues_ms)
    await park(broker, dues_ms, options.size)
    if time.time_ns() // 1_000_000 >= first_ms:
        raise BenchFailure("this machine is too slow to send so many in time")
    seen: list[tuple[int, Run]] = []
    arrived = broker.state.runtime.store.arrivals

    def watch(runs: list[Run]) -> None:
        now_ms = time.time_ns() // 1_000_000
        seen.extend((now_ms, run) for run in runs if run.queue[0] == TOPIC)
        arrived(runs)

    broker.state.runtime.store.arrivals = watch
    say(f"{count:,} are parked, the first is due in {first_ms / 1000 - time.time():.1f} s")
    beside = asyncio.create_task(broker.run())
    await asyncio.sleep(max(0.0, first_ms / 1000 - time.time()))
    cpu_s = time.process_time()
    while sum(len(run.tags_codes) for _, run in seen) < count:
        await asyncio.sleep(0.1)
        if time.time() * 1000 > dues_ms[0] + 60_000 + options.seconds * 1_000:
            raise BenchFailure("they do not come")
    cpu_s = time.process_time() - cpu_s
    beside.cancel()
    await asyncio.gather(beside, return_exceptions=True)
    late_ms = sorted(_lateness(broker, seen))
    await broker.close()
    early = sum(1 for ms in late_ms if ms < 0)
    return [
        Figure("delivered", len(late_ms), "messages", exactly=count),
        Figure("early", early, "messages", exactly=0),
        Figure("late, half of them under", late_ms[count // 2], "ms"),
        Figure("late, 99 % under", late_ms[count * 99 // 100], "ms"),
        Figure("late, at most", late_ms[-1], "ms", below=LATE_MS),
        Figure("CPU", cpu_s * 1e6 / count, "µs per message"),
    ]


def _lateness(broker: Broker, seen: list[tuple[int, Run]]) -> list[int]:
    store, found = broker.state.runtime.store, []
    for now_ms, run in seen:
        topic, queue_id = run.queue
        for entry in store.entries(topic, queue_id, run.first_offset, len(run.tags_codes)):
            record = store.read(entry.log_offset, entry.size_bytes)
            assert record is not None
            due = properties.decode(record.properties)[properties.DELIVER_MS]
            found.append(now_ms - int(due))
    return found


async def _waiting(folder: Path, options: Namespace, say: Any) -> list[Figure]:
    """Due at any time from an hour on: the buckets of the wheel are as many as can be."""
    broker = await opened(folder)
    await park(broker, [time.time_ns() // 1_000_000 + DAY_MS] * BATCH, options.size)
    before = _anonymous_mib()
    rng, now_ms = random.Random(2), time.time_ns() // 1_000_000
    for _ in range(options.waiting // BATCH):
        dues = [now_ms + rng.randrange(DAY_MS // 24, 40 * DAY_MS) for _ in range(BATCH)]
        await park(broker, dues, options.size)
    after = _anonymous_mib()
    say(f"{options.waiting:,} wait, {after - before:.0f} MiB")
    began = time.perf_counter()
    await broker.timer_keeper.write()
    written_s = time.perf_counter() - began
    highest = _anonymous_mib()
    size = (folder / TIMERS_FILE).stat().st_size
    await broker.close()
    figures = [
        Figure("memory of what waits", after - before, "MiB", below=WAITING_MIB),
        Figure("memory with a snapshot written", highest - before, "MiB"),
        Figure("a snapshot", size / MiB, "MiB"),
        Figure("a snapshot is written in", written_s, "s"),
    ]
    for name in ("with a snapshot", "without"):
        if name == "without":
            (folder / TIMERS_FILE).unlink()
        began = time.perf_counter()
        broker = await opened(folder)
        figures.append(Figure(f"start, {name}", time.perf_counter() - began, "s"))
        await broker.close()
    return figures
