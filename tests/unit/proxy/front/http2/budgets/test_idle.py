"""Frames that begin nothing: who sends too many is sent away, who calls fast is not."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from harness.http2 import shared, turns
from harness.http2_caller import GREETING, OTHER_HOST, Caller, greeted

from popmq_proxy.front.http2 import connection, wire
from popmq_proxy.front.http2.budgets import idle
from popmq_proxy.front.http2.budgets.scheduler import SLICE_S
from popmq_proxy.front.http2.wire import Error, Setting

FRAMES: dict[str, Callable[[int], bytes]] = {
    "windows": lambda _: wire.window_update(0, 1),
    "pings": lambda _: wire.frame(wire.PING, 0, 0, bytes(8)),
    "settings": lambda _: wire.settings({}),
    "unknown": lambda _: wire.frame(0x77, 0, 0),
    "goaways": lambda _: wire.goaway(0, Error.NO_ERROR),
    "priorities": lambda _: wire.frame(wire.PRIORITY, 0, 7, bytes(5)),
    "empty pieces": lambda _: wire.frame(wire.DATA, 0, 1),
    "padding": lambda _: wire.frame(wire.DATA, wire.PADDED, 1, b"\x01\x00"),
    "single bytes": lambda _: wire.frame(wire.DATA, 0, 1, b"\x00"),
    "malformed requests": lambda number: wire.frame(
        wire.HEADERS, wire.END_HEADERS, 2 * number + 3, b"\x82"
    ),
    "rapid resets": lambda number: (
        wire.frame(wire.HEADERS, wire.END_HEADERS, 2 * number + 3, b"\x83\x86\x44\x01/")
        + wire.reset(2 * number + 3, Error.CANCEL)
    ),
}


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    """All frames come within one second."""
    monkeypatch.setattr(idle, "monotonic", lambda: 1_000.0)


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize("agent", ["one", "x" * 5_000])
async def test_no_rate_of_calls_is_too_much(agent: str) -> None:
    """As grpcio makes them: two windows for each, and a ping now and then."""
    among = shared(idle_frames_max=1_000, address_idle_frames_max=1_000)
    caller = await greeted(among)
    ping = wire.frame(wire.PING, 0, 0, bytes(8))
    for number in range(5_000):
        stream_id = 2 * number + 1
        windows = wire.window_update(stream_id, 5) + wire.window_update(0, 5)
        frames = (
            caller.request(stream_id, b"hello", agent),
            windows,
            ping if number % 10 == 0 else b"",
        )
        caller.connection.data_received(b"".join(frames))
        await asyncio.sleep(0)
    await turns(20)
    assert caller.goaway_code() is None
    assert await caller.is_served()


@pytest.mark.usefixtures("second")
async def test_large_answers_are_worth_the_windows_for_them() -> None:
    """A client that lets 4 KiB more through, of the stream and of the connection, as it reads."""
    caller = await greeted(shared(idle_frames_max=1_000, address_idle_frames_max=1_000))
    size = 1 << 24
    await caller.give(wire.window_update(0, size))
    await caller.give(wire.settings({Setting.INITIAL_WINDOW_SIZE: size}))
    for number in range(1, 10, 2):
        head = caller.head(number)
        pieces = [wire.frame(wire.DATA, 0, number, bytes(1 << 18)) for _ in range(3)]
        end = wire.frame(wire.DATA, wire.END_STREAM, number, bytes(1 << 18))
        await caller.give(head, *pieces, end)
        await turns(50)
        for _ in range((1 << 20) // 4_096):
            windows = wire.window_update(0, 4_096) + wire.window_update(number, 4_096)
            caller.connection.data_received(windows)
    assert caller.goaway_code() is None


@pytest.mark.usefixtures("second")
async def test_what_calls_are_worth_is_bounded() -> None:
    caller = await greeted(shared(idle_frames_max=1_000))
    caller.connection._member.idle.earn(100 * idle.EARNED_MAX)
    await caller.give(wire.window_update(0, 1) * (idle.EARNED_MAX + 3_000))
    await turns(200)
    assert caller.goaway_code() == Error.ENHANCE_YOUR_CALM


@pytest.mark.usefixtures("second")
async def test_a_call_that_is_refused_is_worth_nothing() -> None:
    caller = await greeted(shared(idle_frames_max=1_000, streams_first=1, streams_max=1))
    await caller.give(caller.request(1, b"wait"))
    for number in range(1, 320):
        await caller.give(caller.request(2 * number + 1, b"hello"))
    assert caller.goaway_code() == Error.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("name", FRAMES)
async def test_frames_that_begin_nothing_are_bounded(name: str) -> None:
    among = shared(idle_frames_max=1_000)
    attacker, neighbour = await greeted(among), await greeted(among)
    await attacker.give(attacker.head(1))
    attacker.transport.take()
    await attacker.give(b"".join(FRAMES[name](number) for number in range(1_000 + idle.GRANT)))
    await turns(200)
    assert attacker.goaway_code() == Error.ENHANCE_YOUR_CALM
    assert await neighbour.is_served()


async def test_an_address_has_a_budget_for_all_its_connections() -> None:
    among = shared(idle_frames_max=10_000, address_idle_frames_max=4_000)
    crowd = [await greeted(among) for _ in range(8)]
    quiet, other = await greeted(among), await greeted(among, OTHER_HOST)
    for _ in range(3):
        for one in crowd:
            if not one.transport.closed:
                await one.give(wire.window_update(0, 1) * idle.GRANT)
    await turns(200)
    assert Error.ENHANCE_YOUR_CALM in [one.goaway_code() for one in crowd]
    assert await quiet.is_served()
    assert await other.is_served()


@pytest.mark.usefixtures("second")
async def test_beside_a_flood_a_connection_of_the_address_has_its_part_of_the_budget() -> None:
    """Many connections behind one balancer: the part of each is less than a grant."""
    among = shared(idle_frames_max=2_000, address_idle_frames_max=4_000)
    quiet = [Caller(among) for _ in range(60)]
    crowd = [await greeted(among) for _ in range(4)]
    for one in crowd:
        await one.give(wire.window_update(0, 1) * 2 * idle.GRANT)
    ping = wire.frame(wire.PING, 0, 0, bytes(8))
    for one in quiet[:3]:
        await one.give(GREETING, ping * idle.GRANT, ping * 40)
        assert one.goaway_code() is None
        await one.give(ping * 60)
        assert one.goaway_code() == Error.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("kind", ["pings", "malformed requests"])
async def test_what_does_not_fit_into_a_turn_is_done_in_later_ones(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    now_s = 1_000.0

    def clock() -> float:
        nonlocal now_s
        now_s += SLICE_S / 2
        return now_s

    monkeypatch.setattr(connection, "monotonic", clock)
    caller = await greeted(shared())
    caller.transport.take()
    count = 10 * connection.LOOK_EVERY
    frames = [FRAMES[kind](number) for number in range(count)]
    caller.connection.data_received(b"".join(frames))
    assert len(caller.transport.take()) < count
    assert not caller.transport.reads, "the client waits, and so does what it sends"
    await turns(100)
    assert caller.transport.reads
    assert await caller.is_served()


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize("count", [2_000, 2_200])
async def test_calls_beyond_the_limit_of_streams_are_refused_and_no_more(count: int) -> None:
    """A client that begins them before it has read how many it may, and sends all of each."""
    caller = await greeted(shared(calls_max=20_000))
    await caller.give(*(caller.head(2 * number + 1) for number in range(count)))
    for number in range(count):
        await caller.give(wire.frame(wire.DATA, 0, 2 * number + 1, b"wa"))
        await caller.give(wire.frame(wire.DATA, wire.END_STREAM, 2 * number + 1, b"it"))
    resets: Counter[int] = Counter()
    for kind, _, _, payload in caller.transport.take():
        if kind == wire.RST_STREAM:
            resets[wire.NUMBER.unpack(payload)[0]] += 1
        assert kind != wire.GOAWAY, payload
    assert resets == {Error.REFUSED_STREAM: count - 1_024}
    assert len(caller.connection.streams.open) == 1_024
