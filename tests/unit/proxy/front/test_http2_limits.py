"""What one client may take of the front, and what becomes of one that takes more."""

import asyncio
from collections.abc import Callable

import pytest
from harness.http2 import Client, shared, turns
from hpack import Encoder

from popmq_proxy.front.events import Event, Receive, Send
from popmq_proxy.front.http2 import connection, idle, outgoing, wire
from popmq_proxy.front.http2 import turns as turns_module
from popmq_proxy.front.http2.deadlines import TICK_S
from popmq_proxy.front.http2.outgoing import WAITING_BYTES
from popmq_proxy.front.http2.shared import Shared
from popmq_proxy.front.http2.turns import SLICE_S
from popmq_proxy.front.http2.wire import Error, Setting

START: Event = {"type": "http.response.start", "status": 200, "headers": [], "trailers": True}
END: Event = {"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")]}
GREETING = wire.PREFACE + wire.settings({})
OTHER_HOST = "5.6.7.8"


async def app(scope: Event, receive: Receive, send: Send) -> None:
    """Answers with the request, or never when that is "wait"."""
    event = await receive()
    while event["more_body"]:
        event = await receive()
    if event["body"] == b"wait":
        await asyncio.sleep(3_600)
    await send(START)
    await send({"type": "http.response.body", "body": event["body"], "more_body": False})
    await send(END)


class Caller(Client):
    def __init__(self, among: Shared, host: str = "1.2.3.4") -> None:
        super().__init__(app, among, host)
        self.encoder = Encoder()

    def head(self, stream_id: int, agent: str = "one") -> bytes:
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/s/m"),
            ("te", "trailers"),
            ("user-agent", agent),
        ]
        return wire.frame(
            wire.HEADERS, wire.END_HEADERS, stream_id, self.encoder.encode(fields, huffman=False)
        )

    def request(self, stream_id: int, body: bytes, agent: str = "one") -> bytes:
        data = wire.frame(wire.DATA, wire.END_STREAM, stream_id, body)
        return self.head(stream_id, agent) + data

    async def is_served(self) -> bool:
        self.transport.take()
        stream_id = self.connection.streams.last_id + 2 | 1
        await self.give(self.request(stream_id, b"hello"))
        return (wire.DATA, 0, b"hello") in self.frames(stream_id)


async def greeted(among: Shared, host: str = "1.2.3.4") -> Caller:
    made = Caller(among, host)
    await made.give(GREETING)
    return made


def pass_time(among: Shared, seconds: float) -> None:
    for _ in range(int(seconds / TICK_S) + 1):
        among.pass_tick()


# --- header tables ---


async def test_a_client_that_keeps_its_header_table_is_served() -> None:
    """It acknowledges our SETTINGS, and goes on with entries of a table of 4,096 bytes."""
    caller = await greeted(shared())
    asked = False
    for number in range(40):
        stream_id = 2 * number + 1
        await caller.give(caller.request(stream_id, b"hello", f"agent {number % 3}"))
        frames = caller.transport.take()
        assert (wire.DATA, 0, stream_id, b"hello") in frames
        if wire.settings({Setting.HEADER_TABLE_SIZE: 0}) in [
            wire.frame(kind, flags, stream, data) for kind, flags, stream, data in frames
        ]:
            asked = True
            await caller.give(wire.frame(wire.SETTINGS, wire.ACK, 0))
    assert asked


# --- requests that do not arrive ---


async def test_a_request_that_never_becomes_whole_is_given_up() -> None:
    among = shared(arrival_s=10.0)
    caller = await greeted(among)
    await caller.give(caller.head(1), caller.head(3))
    await caller.give(wire.frame(wire.DATA, wire.END_STREAM, 3, b"wait"))
    pass_time(among, 10.0)
    await turns()
    assert caller.frames(1) == [(wire.RST_STREAM, 0, wire.NUMBER.pack(Error.CANCEL))]
    assert list(caller.connection.streams.open) == [3], "a call under way may take its time"
    assert among.arrivals.room.taken == 0


async def test_half_open_requests_leave_room_for_others() -> None:
    among = shared(arriving_max=64, streams_first=1_000)
    hog, other = await greeted(among), await greeted(among, OTHER_HOST)
    await hog.give(b"".join(hog.head(2 * number + 1) for number in range(200)))
    assert among.arrivals.room.taken < 64
    assert await other.is_served()
    hog.connection.connection_lost(None)
    await turns()
    assert among.arrivals.room.taken == 0


async def test_more_streams_are_for_who_keeps_calls_under_way() -> None:
    among = shared(streams_first=8, streams_max=32)
    polling, idling = await greeted(among), await greeted(among)
    for number in range(5):
        await polling.give(polling.request(2 * number + 1, b"wait"))
        await idling.give(idling.head(2 * number + 1))
    more = wire.SETTING.pack(Setting.MAX_CONCURRENT_STREAMS, 16)
    assert (wire.SETTINGS, 0, more) in polling.frames(0)
    assert idling.connection.streams.stream_max == 8
    await idling.give(*(idling.head(2 * number + 1) for number in range(5, 9)))
    refused = wire.NUMBER.pack(Error.REFUSED_STREAM)
    assert idling.frames(17) == [(wire.RST_STREAM, 0, refused)]


# --- answers that are not read ---


async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    among = shared(stall_s=10.0)
    caller = await greeted(among)
    await caller.give(wire.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    await caller.give(caller.request(1, b"hello"))
    assert among.rooms.unread.taken == 5 + WAITING_BYTES
    pass_time(among, 5.0)
    await caller.give(wire.window_update(1, 1))
    pass_time(among, 9.0)
    assert among.rooms.unread.taken, "something was read in between"
    pass_time(among, 2.0)
    assert among.rooms.unread.taken == 0
    assert not caller.connection.streams.open


async def test_an_answer_that_has_no_room_to_wait_ends_its_call() -> None:
    among = shared(unread_bytes_max=8_000)
    caller, other = await greeted(among), await greeted(among, OTHER_HOST)
    await caller.give(wire.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    for stream_id in range(1, 41, 2):
        await caller.give(caller.request(stream_id, b"hello"))
    calm = wire.NUMBER.pack(Error.ENHANCE_YOUR_CALM)
    assert (wire.RST_STREAM, 0, calm) in caller.frames(39)
    assert among.rooms.unread.taken <= 8_000
    assert await other.is_served()
    caller.connection.connection_lost(None)
    await turns()
    assert among.rooms.unread.taken == 0


# --- windows of all streams ---


async def blocked(among: Shared, streams: int) -> Caller:
    """A client whose answers wait for their windows."""
    caller = await greeted(among)
    await caller.give(wire.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    for number in range(streams):
        await caller.give(caller.request(2 * number + 1, b"hello"))
    assert caller.connection.outgoing.held_up_count == streams
    caller.transport.take()
    return caller


def windows(*sizes: int) -> bytes:
    pairs = [wire.SETTING.pack(Setting.INITIAL_WINDOW_SIZE, size) for size in sizes]
    return wire.frame(wire.SETTINGS, 0, 0, b"".join(pairs))


async def test_of_several_windows_in_a_frame_the_last_one_counts() -> None:
    caller = await blocked(shared(), 1)
    await caller.give(windows(5, 3, 0))
    assert caller.frames(1) == []
    await caller.give(windows(1, 0, 3))
    assert caller.frames(1) == [(wire.DATA, 0, b"hel")]


@pytest.mark.parametrize("sizes", [(wire.WINDOW_MAX,), (wire.WINDOW_MAX, 0), (1 << 31, 0)])
async def test_a_window_that_settings_push_beyond_its_limit_breaks_the_connection(
    sizes: tuple[int, ...],
) -> None:
    caller = await greeted(shared())
    await caller.give(caller.head(1), windows(0), wire.window_update(1, 1))
    await caller.give(windows(*sizes))
    assert caller.goaway_code() == Error.FLOW_CONTROL_ERROR


async def test_a_window_of_a_stream_that_has_ended_limits_nothing() -> None:
    caller = await greeted(shared())
    await caller.give(caller.head(1), wire.window_update(1, 1 << 30))
    await caller.give(wire.reset(1, Error.CANCEL), caller.head(3), wire.window_update(3, 5))
    await caller.give(windows(wire.WINDOW_MAX - 5))
    assert caller.goaway_code() is None


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has time for hardly anything."""
    now_s = 1_000.0

    def clock() -> float:
        nonlocal now_s
        now_s += SLICE_S / 4
        return now_s

    for module in (connection, outgoing, turns_module):
        monkeypatch.setattr(module, "monotonic", clock)


@pytest.mark.usefixtures("slow")
async def test_answers_that_a_window_sets_free_leave_in_several_turns() -> None:
    """What others send meanwhile does not wait until all have left."""
    among = shared()
    caller, other = await blocked(among, 200), await greeted(among, OTHER_HOST)
    before_s = caller.connection._worker.use.used_s
    await caller.give(windows(100))
    assert await other.is_served()
    assert caller.connection.outgoing.held_up_count > 100
    assert not caller.transport.reads, "nor are more frames of this client read"
    assert caller.connection._worker.use.used_s - before_s > SLICE_S, "its connection had the time"
    await turns(2_000)
    assert not caller.connection.outgoing.held_up_count
    assert caller.transport.reads


@pytest.mark.usefixtures("slow")
async def test_frames_that_come_in_pieces_while_answers_leave_are_whole() -> None:
    """As TLS hands them over: it may have more, though nothing more is read from the socket."""
    caller = await blocked(shared(), 200)
    ping = wire.frame(wire.PING, 0, 0, bytes(8))
    await caller.give(windows(100) + ping[:5], ping[5:12], ping[12:])
    assert caller.connection.outgoing.held_up_count > 100
    await turns(2_000)
    assert (wire.PING, wire.ACK, bytes(8)) in caller.frames(0)


# --- frames that begin nothing ---

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
async def test_no_rate_of_calls_is_too_much() -> None:
    """As grpcio makes them: two windows for each, and a ping now and then."""
    among = shared(idle_frames_max=1_000, address_idle_frames_max=1_000)
    caller = await greeted(among)
    ping = wire.frame(wire.PING, 0, 0, bytes(8))
    for number in range(5_000):
        stream_id = 2 * number + 1
        windows = wire.window_update(stream_id, 5) + wire.window_update(0, 5)
        frames = caller.request(stream_id, b"hello"), windows, ping if number % 10 == 0 else b""
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
    for number in range(1, 210):
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
        await one.give(GREETING, ping * 40)
        assert one.goaway_code() is None
        await one.give(ping * 60)
        assert one.goaway_code() == Error.ENHANCE_YOUR_CALM


async def test_what_does_not_fit_into_a_turn_is_done_in_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1_000.0

    def clock() -> float:
        nonlocal now_s
        now_s += SLICE_S / 2
        return now_s

    monkeypatch.setattr(connection, "monotonic", clock)
    caller = await greeted(shared())
    caller.transport.take()
    ping = wire.frame(wire.PING, 0, 0, bytes(8))
    caller.connection.data_received(ping * 10 * connection.LOOK_EVERY)
    assert len(caller.transport.take()) < 10 * connection.LOOK_EVERY
    assert not caller.transport.reads, "the client waits, and so does what it sends"
    await turns(100)
    assert caller.transport.reads
    assert await caller.is_served()
