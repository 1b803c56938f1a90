"""Very many topics: time to make them, time to come back with them, memory per queue."""

import asyncio
import time
from argparse import ArgumentParser, Namespace
from typing import Any

import grpc

from compare import processes
from compare.failure import BenchFailure
from extremes import usage
from extremes.outcome import Figure, Outcome
from extremes.services import Services
from popmq_admin.v1 import admin_pb2 as pb
from popmq_admin.v1 import admin_pb2_grpc as pb_grpc

TITLE = "1,000 topics of 8 queues: making, restart, memory"
PREFIX = "many-"
FIRST = f"{PREFIX}0"
CALL_S = 60.0
AT_A_TIME = 4
TOUCH_PER_S = 200
"""Messages a second at which all queues are taken to be touched, for the time allowed alone."""


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--queues", type=int, default=8, help="of each topic")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds the CPU is watched")


def variables(options: Namespace) -> dict[str, str]:
    return {"POPMQ_BROKER_TOPICS_MAX": str(max(20_000, 2 * options.topics))}


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
    settings = {"topics": options.topics, "queues": options.queues, "front": options.front}
    return Outcome("topics", settings, figures)


def _memory_mib(services: Services) -> float:
    return processes.memory(usage.everyone(services.processes())).anonymous_mib


def _resident_mib(services: Services) -> float:
    return processes.memory(usage.everyone(services.processes())).total_mib


async def _make(endpoint: str, topics: int, queues: int) -> float:
    """Seconds; a few calls are under way at a time."""
    names = iter(range(topics))
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub: pb_grpc.AdminAsyncStub = pb_grpc.AdminStub(channel)

        async def maker() -> None:
            for index in names:
                topic = pb.Topic(name=f"{PREFIX}{index}", message_type="NORMAL", queues=queues)
                await stub.CreateTopic(pb.CreateTopicRequest(topic=topic), timeout=CALL_S)

        began = time.monotonic()
        try:
            await asyncio.gather(*(maker() for _ in range(AT_A_TIME)))
        except grpc.aio.AioRpcError as refused:
            raise BenchFailure(f"CreateTopic: {refused.details()}") from refused
        return time.monotonic() - began
