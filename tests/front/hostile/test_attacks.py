"""Each attack beside a neighbour that behaves: how long does it wait, and what stays behind?

**The neighbour's p99 is below 50 ms.** A client usually waits a few milliseconds, most of it for
the disk; without the bounds of the front each attack in here made the neighbour wait 0.1 to 9 s.
The test does not read the wall clock, which other processes on the same cores move as well. It
reads the CPU time that the server's event loop spent between a request of the neighbour and its
answer (neighbour.py). A slower machine takes more of that for everything: what plain work takes
(`slowness`) stretches the limits. The log is flushed in the background, so that a slow disk is not
mistaken for a slow front. The neighbour has the attackers' address, as all clients have behind a
balancer.

**An attack is what its name says.** It is ready when the server has answered its beginning; then it
is sent away, or never, as its table in attacks.py says.

**Memory returns to within 1.2 of before**, counted from the start of the server and not from the
previous attack: all that need no more than a few calls leave no more than that together, and so do
all that hold up thousands of calls.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random, randrange

import pytest
from front.h2_client import connect
from front.hostile.attackers import started
from front.hostile.attacks import ATTACKS, CALLS, FLOODS, PACED
from front.hostile.pieces import LARGE_TOPIC
from front.payloads import receive, send, stored
from front.server import Server, serving
from front.wire import frame

from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.units import KiB, MiB

ATTACK_S = 3.0
P99_MS = 50.0
PLAIN_WORK = 2_000_000
PLAIN_WORK_S = 0.12
"""CPU time of so many additions, where these limits were found."""
SPREAD_COUNT = 200_000
SPREAD_S = 0.09
"""The same of a look at so many objects in no order: no cache of the processor holds them, as none
holds what a server has of thousands of calls. Machines were seen that add as fast as others and
need several times as long for this."""
PROBE = 20
"""So small a part of it is done while an attack goes on: 10 ms."""
FRESH_BYTES = 4 * MiB
FRESH_MS = 1.6
"""CPU time of so much memory that was not used before, where the system gives a page of 4 KiB in
1.5 µs. Machines were seen that need 5 µs."""
SLOW_MAX = 4.0
ATTACKS_MAX = 3
KEPT = 1.2
ENDED_S = 90.0
"""By then the calls of attackers that have gone are ended. What they had written before is read
first: a socket holds some 6 MiB of it, which is 50,000 polls and their resets. Seen: 4 to 40 s."""
pytestmark = pytest.mark.timeout(300)
SETTLES_WITHIN_S = 60.0
LOOKS_EVERY_S = 0.1
SENDS_MIN = 20
"""Of the neighbour; fewer tell nothing."""
LARGE_COUNT = 400
LARGE_BYTES = 256 * KiB
UNREAD_MIB = 48
RECEIVED_MIB = 64
REQUEST_MIB = 16
ANSWER_MIB = 64 / 1_024
"""What a client that has read all before it may get without room for it."""
ARRIVING, RECEIVED, UNREAD = "popmq_requests_arriving", "popmq_received_bytes", "popmq_unread_bytes"
HOLDING = [
    *("settings of many streams", "long settings", "blocked streams", "trickling windows"),
    *("late resets", "resets in batches", "rapid reset", "resets within the budget"),
]
"""Thousands of calls under way."""
OF_ROOM = {
    *("endless messages", "unfinished requests", "packed requests"),
    *("empty messages", "empty acks"),
}
LARGE = {*OF_ROOM, "unread answers", "unread sockets"}
"""The server copies megabytes of bodies."""
USUAL = [
    *(name for name in {**FLOODS, **PACED, **CALLS} if name not in {*HOLDING, *OF_ROOM}),
    "half-open calls",
]
OVER_TLS = [
    *("windows", "rapid reset", "settings of many streams", "frames of all kinds"),
    *("huffman blocks", "many half-open calls"),
]


@cache
def spread_objects() -> list[list[int]]:
    found = [[number] for number in range(SPREAD_COUNT)]
    Random(1).shuffle(found)
    return found


def slowness(part: int = 1) -> float:
    """How much longer CPU work takes now than where the limits were found; 1.0: no longer. Found
    by one of so many parts of the work."""
    objects = spread_objects()
    began_s, total = time.thread_time(), 0
    for number in range(PLAIN_WORK // part):
        total += number
    added_s = time.thread_time()
    first = randrange(part) * SPREAD_COUNT // part
    for one in objects[first : first + SPREAD_COUNT // part]:
        total += one[0]
    took = (added_s - began_s) / PLAIN_WORK_S, (time.thread_time() - added_s) / SPREAD_S
    return min(SLOW_MAX, max(1.0, *(part * longer for longer in took)))


def slowness_of_memory() -> float:
    """The same of memory that is used for the first time."""
    began_s = time.thread_time()
    bytes(bytearray(FRESH_BYTES // 2))
    return min(SLOW_MAX, (time.thread_time() - began_s) * 1e3 / FRESH_MS)


@contextmanager
def attackable(folder: Path, settings: dict[str, str]) -> Iterator[Server]:
    with serving("http2", folder, "--flush", "async", settings=settings) as running:
        yield running
        assert running.process.poll() is None, f"the server died:\n{running.log.read_text()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with attackable(tmp_path_factory.mktemp("attacked"), {}) as running:
        yield running


@pytest.fixture(scope="module")
def before_mib(server: Server) -> float:
    return asyncio.run(used_mib(server))


@pytest.fixture(scope="module")
def held_up_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with attackable(tmp_path_factory.mktemp("held-up"), {}) as running:
        yield running


@pytest.fixture(scope="module")
def before_held_up_mib(held_up_server: Server) -> float:
    return asyncio.run(used_mib(held_up_server))


async def used_mib(server: Server) -> float:
    """When it has served a client."""
    async with neighbour(server):
        await asyncio.sleep(1)
    return server.rss_mib()


@asynccontextmanager
async def neighbour(server: Server, *tls: str) -> AsyncIterator[list[float]]:
    """Sends all the time; when this is left the list has what it was charged with, in ms."""
    charged: list[float] = []
    process = started("neighbour", server.endpoint, str(server.process.pid), *tls)
    try:
        assert process.stdout is not None
        assert (await asyncio.to_thread(process.stdout.readline)).strip() == "ready"
        yield charged
        told, _ = await asyncio.to_thread(process.communicate, "stop", timeout=60)
        assert process.returncode == 0, "one of its sends failed"
        charged += json.loads(told)
    finally:
        process.kill()
        process.wait()


@dataclass
class Outcome:
    charged_ms: list[float]
    slowness: float
    ready: int = 0
    cut_early: int = 0
    sent_away: int = 0
    most_mib: float = 0.0
    """Without the pages of files."""
    most: dict[str, int] = field(default_factory=dict)
    """Of /metrics."""

    @property
    def p99_ms(self) -> float:
        charged_ms = sorted(self.charged_ms)
        return charged_ms[min(len(charged_ms) - 1, len(charged_ms) * 99 // 100)]


async def attacked(server: Server, name: str, *tls: str, figures: tuple[str, ...] = ()) -> Outcome:
    """The neighbour's p99 is looked at in here, for it is the same everywhere. Of some 200 sends it
    is what the worst but one waited, which another process can do, too. That can also hold up an
    attack until it is too weak to break a rule. So what is wrong is looked at again: what the
    server does wrong it does each time."""
    for _ in range(ATTACKS_MAX - 1):
        try:
            return await _attacked(server, name, *tls, figures=figures)
        except AssertionError as wrong:
            print(f"{name}, looked at again: {wrong}")
    return await _attacked(server, name, *tls, figures=figures)


async def _attacked(server: Server, name: str, *tls: str, figures: tuple[str, ...]) -> Outcome:
    outcome = Outcome([], slowness())
    async with neighbour(server, *tls) as charged_ms:
        attack_s = ATTACK_S * outcome.slowness
        attack = started("attacks", name, server.endpoint, str(attack_s), *tls)
        while attack.poll() is None:
            outcome.most_mib = max(outcome.most_mib, server.own_mib())
            for figure in figures:
                now = await server.figure(figure)
                outcome.most[figure] = max(outcome.most.get(figure, 0), now)
            outcome.slowness = max(outcome.slowness, slowness(PROBE))
            if name in LARGE:
                outcome.slowness = max(outcome.slowness, slowness_of_memory())
            await asyncio.sleep(0.05)
        told, _ = attack.communicate()
        assert attack.returncode == 0
    outcome.charged_ms = charged_ms
    sends = f"{len(charged_ms)} sends, p99 {outcome.p99_ms:.1f} ms"
    print(name, told.strip(), f"{sends}, slowness {outcome.slowness:.1f}")
    counts = json.loads(told)
    outcome.ready, outcome.cut_early = counts["ready"], counts["cut_early"]
    outcome.sent_away = counts["sent_away"]
    assert len(charged_ms) >= SENDS_MIN
    assert outcome.ready >= ATTACKS[name].connections, "not all of it began"
    assert outcome.cut_early == 0, "it was cut off before it began"
    if not ATTACKS[name].may_stay:
        assert outcome.sent_away > 0
    elif not ATTACKS[name].may_be_cut:
        assert outcome.sent_away == 0
    assert outcome.p99_ms < P99_MS * outcome.slowness
    return outcome


async def settled(held_mib: Callable[[], float], most_mib: float) -> None:
    for _ in range(int(SETTLES_WITHIN_S / LOOKS_EVERY_S)):
        if held_mib() <= most_mib:
            return
        await asyncio.sleep(LOOKS_EVERY_S)
    assert held_mib() <= most_mib


@pytest.mark.parametrize("name", USUAL)
async def test_neighbour_hardly_waits_and_memory_returns(
    server: Server, before_mib: float, name: str
) -> None:
    await attacked(server, name)
    await settled(server.rss_mib, before_mib * KEPT)


async def test_half_open_calls_take_all_room_but_that_of_others(server: Server) -> None:
    outcome = await attacked(server, "many half-open calls", figures=(ARRIVING,))
    assert outcome.most[ARRIVING] > 6_000


@pytest.mark.parametrize("name", OVER_TLS)
async def test_the_same_over_tls(server: Server, before_mib: float, name: str) -> None:
    await attacked(server, name, "tls")


@pytest.mark.parametrize("name", HOLDING)
async def test_calls_that_are_held_up_or_taken_back_leave_nothing(
    held_up_server: Server, before_held_up_mib: float, name: str
) -> None:
    outcome = await attacked(held_up_server, name)
    await held_up_server.until_rpcs("ReceiveMessage", 0, ENDED_S * outcome.slowness)
    await settled(held_up_server.rss_mib, before_held_up_mib * KEPT)


async def test_thousands_of_polls_that_vanish_hold_up_nobody(tmp_path: Path) -> None:
    """20,000 of two clients, twice: what the first leaves, the second does not find again."""
    with attackable(tmp_path, {}) as server:
        before_mib = await used_mib(server)
        for _ in range(2):
            outcome = await attacked(server, "parked polls")
            await server.until_rpcs("ReceiveMessage", 0, ENDED_S * outcome.slowness)
            await settled(server.rss_mib, before_mib * KEPT)


@pytest.mark.parametrize(
    "name",
    ["endless messages", "unfinished requests", "packed requests", "empty messages", "empty acks"],
)
async def test_requests_hold_what_they_may_and_no_more(tmp_path: Path, name: str) -> None:
    settings = {
        "POPMQ_PROXY_RECEIVED_BYTES_MAX": str(RECEIVED_MIB * MiB),
        "POPMQ_PROXY_REQUEST_BYTES_MAX": str(REQUEST_MIB * MiB),
    }
    with attackable(tmp_path, settings) as server:
        before_mib, own_mib = await used_mib(server), server.own_mib()
        outcome = await attacked(server, name, figures=(RECEIVED,))
        print(f"{own_mib:.0f}, at most {outcome.most_mib:.0f} MiB, {outcome.most}")
        assert RECEIVED_MIB / 4 < outcome.most[RECEIVED] / MiB <= RECEIVED_MIB
        assert outcome.most_mib - own_mib < 3 * RECEIVED_MIB
        await settled(server.rss_mib, before_mib * KEPT)


@pytest.mark.parametrize("name", ["unread answers", "unread sockets"])
async def test_answers_that_nobody_reads_are_bounded_and_come_back(
    tmp_path: Path, name: str
) -> None:
    """Clients with 800 polls take what they can. What does not fit stays in the broker, and what
    they held goes to others when they have gone; but for answers that a socket has taken. The
    system gives a socket up to 4 MiB: eight of them take less than half of what there is."""
    settings = {"POPMQ_PROXY_UNREAD_BYTES_MAX": str(UNREAD_MIB * MiB)}
    with attackable(tmp_path, settings) as server:
        await _send_large(server)
        before_mib = server.own_mib()
        outcome = await attacked(server, name, figures=(UNREAD,))
        print(f"{before_mib:.0f}, at most {outcome.most_mib:.0f} MiB, {outcome.most}")
        assert UNREAD_MIB / 2 < outcome.most[UNREAD] / MiB <= UNREAD_MIB + 40 * ANSWER_MIB
        assert outcome.most_mib - before_mib < 2 * UNREAD_MIB + 50
        if name == "unread answers":
            assert await _receive_large(server) == LARGE_COUNT
        await settled(server.own_mib, before_mib * KEPT)
        assert await server.figure(UNREAD) == 0


async def _send_large(server: Server) -> None:
    async with connect(server.endpoint) as connection:
        poll = frame(receive(LARGE_TOPIC, "attackers", poll_s=0))
        await connection.call("ReceiveMessage", poll)  # makes the group, which starts here
        for _ in range(LARGE_COUNT):
            body = frame(send(LARGE_TOPIC, bytes(LARGE_BYTES)))
            assert stored(await connection.call("SendMessage", body))


async def _receive_large(server: Server) -> int:
    """How many come within some seconds."""
    found = 0
    async with connect(server.endpoint, window_bytes=1 << 20) as connection:
        for _ in range(3 * LARGE_COUNT):
            poll = frame(receive(LARGE_TOPIC, "attackers", poll_s=1))
            stream = await connection.call("ReceiveMessage", poll, timeout_s=20)
            for answer in stream.messages:
                response = service.ReceiveMessageResponse.FromString(answer)
                found += response.WhichOneof("content") == "message"
            if found >= LARGE_COUNT:
                break
    return found
