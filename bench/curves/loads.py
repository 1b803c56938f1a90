"""Curves of servers under load: each value gets the same load, on servers that the curve has for
itself."""

import asyncio
from collections.abc import Iterator, Sequence

import grpc

from curves.point import CurvePoint, of_figures, of_report
from extremes import backlog, topics
from extremes.services import Services
from popmq import Client
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

AT_A_TIME = 4
"""Calls under way while topics and groups are made."""
USED_MAX = 1_000
"""Topics that are sent to: one client may name 1,024 in its settings."""
STEADY_PER_S = 500
"""Messages a second of many clients together."""
SENDS_MAX = 64
"""Sends under way, if the servers fall behind."""
POLL = "110s"
"""All begin at a time: none is to end in the time that is measured."""
BACKLOG_BODY_BYTES = 100
WINDOW = 20_000
"""Messages received of a backlog."""


def sizes(services: Services, values: Sequence[int], seconds: float) -> Iterator[CurvePoint]:
    """Bytes of a body. One message per send, 16 under way."""
    for size in values:
        topic = f"size-{size}"
        services.make_topic(topic)
        flags = ["-mode", "send", "-topic", topic, "-size", str(size)]
        flags += ["-inflight", "16", "-conns", "4", *_window(1, seconds)]
        yield of_report(size, services.load(flags, seconds), "send", services)


def many_topics(services: Services, values: Sequence[int], seconds: float) -> Iterator[CurvePoint]:
    """Topics of one queue, of which `USED_MAX` are sent to in turn, 64 sends under way."""
    made = 0
    for count in values:
        names = [f"topic-{i}" for i in range(made, count)]
        asyncio.run(_make_topics(services.endpoint, names))
        made = count
        flags = ["-mode", "send", "-topic", "topic-", "-size", "1024"]
        flags += ["-topics", str(min(count, USED_MAX)), "-inflight", "64", "-conns", "1"]
        flags += _window(2, seconds)
        yield of_report(count, services.load(flags, seconds), "send", services)


def many_groups(services: Services, values: Sequence[int], seconds: float) -> Iterator[CurvePoint]:
    """Groups that have received from the topic; one of them receives what is sent."""
    services.make_topic("groups")
    services.make_group("measured", "last")
    made = 1
    for count in values:
        asyncio.run(_start_groups(services.endpoint, "groups", range(made, count)))
        made = count
        flags = ["-mode", "e2e", "-topic", "groups", "-group", "measured", "-inflight", "16"]
        flags += ["-receivers", "8", "-conns", "4", "-drain", "60s", *_window(2, seconds)]
        yield of_report(count, services.load(flags, seconds), "end_to_end", services)


def many_clients(services: Services, values: Sequence[int], seconds: float) -> Iterator[CurvePoint]:
    """Clients, each with a connection and a receive that waits, which share a steady stream."""
    for count in values:
        topic = f"clients-{count}"
        services.make_topic(topic)
        services.make_group(topic, "last")
        flags = ["-mode", "e2e", "-topic", topic, "-group", topic, "-rate", str(STEADY_PER_S)]
        flags += ["-conns", str(count), "-receivers", str(count)]
        flags += ["-inflight", str(min(count, SENDS_MAX))]
        flags += ["-poll", POLL, "-drain", "120s", *_window(5 + count / 200, seconds)]
        yield of_report(count, services.load(flags, seconds), "end_to_end", services)


def backlogs(services: Services, values: Sequence[int], _: float) -> Iterator[CurvePoint]:
    """Messages that wait; the first of them are received 32 at a time, and acked."""
    for count in values:
        name = f"backlog-{count}"
        services.make_topic(name)
        services.make_group(name, "first")
        backlog.fill(services, name, count, BACKLOG_BODY_BYTES)
        yield of_figures(count, backlog.pop(services, name, WINDOW), services)


def _window(warmup_s: float, seconds: float) -> list[str]:
    return ["-warmup", f"{warmup_s:g}s", "-duration", f"{seconds:g}s"]


async def _make_topics(endpoint: str, names: list[str]) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        await topics.calls(admin_grpc.AdminStub(channel), topics.make_topic, names, AT_A_TIME)


async def _start_groups(endpoint: str, topic: str, numbers: Sequence[int]) -> None:
    left = iter(numbers)

    async def start() -> None:
        for number in left:
            group = f"group-{number}"
            await client.admin.create_group(group)
            await client.receive(topic, group, max_messages=1, wait_s=0)

    async with Client(endpoint) as client:
        await asyncio.gather(*(start() for _ in range(AT_A_TIME)))
