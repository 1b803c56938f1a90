"""Very many topics and groups: time to make them, whether the last take longer than the first, time
to come back with them, memory per queue."""

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import grpc

from compare import processes
from compare.failure import BenchFailure
from extremes import usage
from extremes.outcome import Figure, Outcome
from extremes.services import Services
from popmq_admin.v1 import admin_pb2 as pb
from popmq_admin.v1 import admin_pb2_grpc as pb_grpc

TITLE = "20,000 topics and groups, 1,000 topics with 8 queues in use: making, restart, memory"
PREFIX = "many-"
FIRST = f"{PREFIX}0"
CALL_S = 60.0
AT_A_TIME = 4
AT_ONCE = 300
MAKING_S_MAX = 60.0
"""For 20,000; for others in proportion."""
SECOND_HALF_MAX = 1.3
"""Times the first half; more means that each makes the next one slower."""
SLOWEST_S_MAX = 10.0
"""A call's time-out, when many ask at once."""
TOUCH_PER_S = 200
"""Messages a second at which all queues are taken to be touched, for the time allowed alone."""


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--many", type=int, default=20_000, help="topics, and groups, just made")
    parser.add_argument("--topics", type=int, default=1_000, help="with messages in each queue")
    parser.add_argument("--queues", type=int, default=8, help="of each topic")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds the CPU is watched")


def variables(options: Namespace) -> dict[str, str]:
    many = options.many + options.topics + 2 * AT_ONCE
    return {
        "POPMQ_BROKER_TOPICS_MAX": str(max(20_000, many)),
        "POPMQ_BROKER_GROUPS_MAX": str(max(20_000, many)),
    }


class Made(NamedTuple):
    """How long each half took, and the slowest call when `AT_ONCE` asked at once."""

    first_s: float
    second_s: float
    slowest_s: float


def run(services: Services, options: Namespace, say: Any) -> Outcome:
    empty_start_s = services.start_timed("probe")
    empty_mib = _memory_mib(services)
    made_s = asyncio.run(_make(services.endpoint, options.topics, options.queues))
    say(f"{options.topics:,} topics made in {made_s:.1f} s")
    made_mib = _memory_mib(services)
    queues = options.topics * options.queues
    flags = ["-mode", "send", "-topic", PREFIX, "-topics", str(options.topics), "-size", "64"]
    flags += ["-messages", str(queues), "-inflight", "64", "-conns", "4"]
    allowed_s = 60 + queues / TOUCH_PER_S
    report = services.load([*flags, "-warmup", "0s", "-duration", f"{allowed_s:g}s"], allowed_s)
    if report["sent"] < queues:
        raise BenchFailure(f"{report['sent']} of {queues} messages were confirmed")
    say("every queue has a message")
    used_mib = _memory_mib(services)
    services.stop()
    restart_s = services.start_timed(FIRST)
    say(f"restarted in {restart_s:.1f} s")
    pids = usage.everyone(services.processes())
    idle_percent = usage.cores_used(pids, options.idle) * 100
    figures = [
        Figure("making all topics", made_s, "s"),
        Figure("making a topic", made_s / options.topics * 1000, "ms"),
        Figure("start until a send is confirmed, no topics", empty_start_s, "s"),
        Figure("start until a send is confirmed, all topics", restart_s, "s"),
        Figure("memory (anonymous), no topics", empty_mib, "MiB"),
        Figure("memory (anonymous), topics made", made_mib, "MiB"),
        Figure("memory (anonymous), every queue used", used_mib, "MiB"),
        Figure("memory (anonymous), after restart", _memory_mib(services), "MiB"),
        Figure("memory per queue, made", (made_mib - empty_mib) * 1024 / queues, "KiB"),
        Figure("memory per queue, used", (used_mib - empty_mib) * 1024 / queues, "KiB"),
        Figure("memory (resident), after restart", _resident_mib(services), "MiB"),
        Figure("open files, all processes", usage.open_files(pids), ""),
        Figure("idle CPU, all", idle_percent, "% of a core"),
    ]
    for what, make in (("topics", make_topic), ("groups", make_group)):
        made = asyncio.run(_many(services.endpoint, options.many, make))
        say(f"{options.many:,} {what} made in {made.first_s + made.second_s:.1f} s")
        figures += many_figures(what, options.many, made)
    services.stop()
    figures.append(
        Figure("start until a send is confirmed, with these", services.start_timed(FIRST), "s")
    )
    settings = {
        "topics": options.topics,
        "queues": options.queues,
        "many": options.many,
        "front": options.front,
    }
    return Outcome("topics", settings, figures)


def many_figures(what: str, count: int, made: Made) -> list[Figure]:
    allowed_s = MAKING_S_MAX * max(count, 1_000) / 20_000
    return [
        Figure(f"making {count:,} {what}", made.first_s + made.second_s, "s", below=allowed_s),
        Figure(
            f"{what}, second half ÷ first",
            made.second_s / made.first_s,
            "",
            below=SECOND_HALF_MAX,
        ),
        Figure(f"{what}, slowest of {AT_ONCE} at once", made.slowest_s, "s", below=SLOWEST_S_MAX),
    ]


def _memory_mib(services: Services) -> float:
    return processes.memory(usage.everyone(services.processes())).anonymous_mib


def _resident_mib(services: Services) -> float:
    return processes.memory(usage.everyone(services.processes())).total_mib


async def _make(endpoint: str, topics: int, queues: int) -> float:
    """Seconds; a few calls are under way at a time."""

    async def make(stub: Any, name: str) -> None:
        topic = pb.Topic(name=name, message_type="NORMAL", queues=queues)
        await stub.CreateTopic(pb.CreateTopicRequest(topic=topic), timeout=CALL_S)

    began = time.monotonic()
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub = pb_grpc.AdminStub(channel)
        await calls(stub, make, [f"{PREFIX}{index}" for index in range(topics)], AT_A_TIME)
    return time.monotonic() - began


async def make_topic(stub: Any, name: str) -> None:
    topic = pb.Topic(name=name, message_type="NORMAL", queues=1)
    await stub.CreateTopic(pb.CreateTopicRequest(topic=topic), timeout=CALL_S)


async def make_group(stub: Any, name: str) -> None:
    group = pb.Group(name=name, max_attempts=16, consume_from="LAST")
    await stub.CreateGroup(pb.CreateGroupRequest(group=group), timeout=CALL_S)


Make = Callable[[Any, str], Awaitable[None]]


async def _many(endpoint: str, count: int, make: Make) -> Made:
    """Half of them, the other half, and then many at once."""
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub = pb_grpc.AdminStub(channel)
        names = [f"one-of-{index}" for index in range(count)]
        took_s = []
        for part in (names[: count // 2], names[count // 2 :]):
            began = time.monotonic()
            await calls(stub, make, part, AT_A_TIME)
            took_s.append(time.monotonic() - began)
        first_s, second_s = took_s
        more = [f"at-once-{index}" for index in range(AT_ONCE)]
        slowest_s = await calls(stub, make, more, AT_ONCE)
        return Made(first_s, second_s, slowest_s)


async def calls(stub: Any, make: Make, names: list[str], at_a_time: int) -> float:
    """The slowest one's seconds. Raises `BenchFailure`."""
    left = iter(names)
    slowest_s = 0.0

    async def maker() -> None:
        nonlocal slowest_s
        for name in left:
            began = time.monotonic()
            await make(stub, name)
            slowest_s = max(slowest_s, time.monotonic() - began)

    try:
        await asyncio.gather(*(maker() for _ in range(at_a_time)))
    except grpc.aio.AioRpcError as refused:
        raise BenchFailure(f"{names[0]} and others: {refused.details()}") from refused
    return slowest_s
