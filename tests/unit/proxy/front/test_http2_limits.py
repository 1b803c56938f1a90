"""What one client may take of the front, and what becomes of one that takes more."""

from harness.http2 import shared, turns
from harness.http2_caller import OTHER_HOST, greeted

from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.deadlines import TICK_S
from popmq_proxy.front.http2.outgoing import WAITING_BYTES
from popmq_proxy.front.http2.shared import Shared
from popmq_proxy.front.http2.wire import Error, Setting


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
