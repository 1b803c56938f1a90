"""The web console before very many topics, groups and messages: how long a page takes, and what an
open console costs senders."""

import asyncio
import json
import statistics
import subprocess
import threading
import time
import urllib.request
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import grpc

from compare.failure import BenchFailure
from extremes.backlog import fill
from extremes.outcome import Figure, Outcome
from extremes.services import Services
from extremes.topics import PREFIX, calls, make_group, make_topic
from popmq_admin.v1 import admin_pb2_grpc as pb_grpc

TITLE = "the web console with 20,000 topics, 5,000 groups and 5,000,000 messages: time of each page"
PAGES: Final = {
    "overview": "/",
    "topics": "/topics",
    "topics, last page by name": "/topics?page=200&sort=-name",
    "a topic": f"/topics/{PREFIX}0",
    "groups": "/groups",
    "a group": "/groups/group-0",
    "dead letters": "/dead-letters",
    "delayed": "/later",
    "cluster": "/cluster",
    "access": "/access",
    "search for a topic": f"/search?q={PREFIX}17",
}
PAGE_MS_MAX: Final = 200.0
LOST_PERCENT_MAX: Final = 1.0
WARM: Final = 1
"""The first one, which compiles a template, does not count."""
FORGOTTEN_S: Final = 3.1
"""Before each: the console keeps no answer that long, so that all is asked for again."""
AT_A_TIME: Final = 8
SIZE_BYTES: Final = 128
VISITS_EVERY_S: Final = 5.0
"""As a page in a browser asks."""
ANSWER_S: Final = 30.0


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--used", type=int, default=1_000, help="topics that have the messages")
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=5_000_000)
    parser.add_argument("--times", type=int, default=20, help="each page is asked for")
    parser.add_argument("--seconds", type=float, default=10.0, help="of sending, in each turn")
    parser.add_argument("--turns", type=int, default=4, help="of sending without and with pages")


def variables(options: Namespace) -> dict[str, str]:
    return {
        "POPMQ_BROKER_TOPICS_MAX": str(max(20_000, options.topics + 100)),
        "POPMQ_BROKER_GROUPS_MAX": str(max(20_000, options.groups + 100)),
    }


def run(services: Services, options: Namespace, say: Any) -> Outcome:
    services.start()
    asyncio.run(_make(services.endpoint, options))
    say(f"{options.topics:,} topics and {options.groups:,} groups are made")
    fill(services, PREFIX, options.messages, SIZE_BYTES, topics=options.used)
    say(f"{options.messages:,} messages are stored")
    with console(services) as url:
        figures = []
        for name, path in PAGES.items():
            times = [_asked_anew_ms(f"{url}{path}") for _ in range(WARM + options.times)]
            taken_ms = sorted(times[WARM:])
            p95 = taken_ms[int(len(taken_ms) * 0.95)]
            say(f"{name}: p95 {p95:.0f} ms")
            figures.append(Figure(f"{name}, p50", statistics.median(taken_ms), "ms"))
            figures.append(Figure(f"{name}, p95", p95, "ms", below=PAGE_MS_MAX))
        figures += _cost(services, options, url, say)
    settings = {
        "topics": options.topics,
        "groups": options.groups,
        "messages": options.messages,
        "front": options.front,
    }
    return Outcome("console", settings, figures)


async def _make(endpoint: str, options: Namespace) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub = pb_grpc.AdminStub(channel)
        topics = [f"{PREFIX}{index}" for index in range(options.topics)]
        await calls(stub, make_topic, topics, AT_A_TIME)
        groups = [f"group-{index}" for index in range(options.groups)]
        await calls(stub, make_group, groups, AT_A_TIME)


@contextmanager
def console(services: Services) -> Iterator[str]:
    """Its address, without the slash at its end."""
    command = [str(services.tools.popmq), "console", "--endpoint", services.endpoint]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise BenchFailure("the console did not start; its reason stands above")
            yield str(json.loads(line)["url"]).rstrip("/")
        finally:
            process.terminate()


def _asked_anew_ms(url: str) -> float:
    time.sleep(FORGOTTEN_S)
    return _timed_ms(url)


def _timed_ms(url: str) -> float:
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
        answer.read()
    return (time.monotonic() - began) * 1_000


def _cost(services: Services, options: Namespace, url: str, say: Any) -> list[Figure]:
    """In turns: nobody looks; one has the overview open, another one a group."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(options.turns):
        for watched in (False, True) if turn % 2 else (True, False):
            with _visitors(url, ["/", "/groups/group-0"] if watched else []):
                rates[watched].append(_send_rate(services, options))
        say(f"turn {turn + 1} of {options.turns}: sends")
    alone, beside = (statistics.median(rates[watched]) for watched in (False, True))
    lost = (1 - beside / alone) * 100
    return [
        Figure("sends, no page open", alone, "/s"),
        Figure("sends, two pages open", beside, "/s"),
        Figure("sends lost to two open pages", lost, "%", below=LOST_PERCENT_MAX),
    ]


def _send_rate(services: Services, options: Namespace) -> float:
    flags = ["-mode", "send", "-topic", f"{PREFIX}0", "-size", "1024", "-inflight", "128"]
    flags += ["-conns", "4", "-warmup", "1s", "-duration", f"{options.seconds:g}s"]
    report = services.load(flags, options.seconds)
    return float(report["messages_per_s"])


@contextmanager
def _visitors(url: str, paths: Sequence[str]) -> Iterator[None]:
    over = threading.Event()

    def visit(path: str) -> None:
        while not over.wait(VISITS_EVERY_S):
            _timed_ms(f"{url}{path}")

    threads = [threading.Thread(target=visit, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
