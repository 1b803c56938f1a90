"""What one client may take of the front, and what becomes of one that takes more."""

import asyncio
import gc

import pytest
from harness.http2 import shared, turns
from harness.http2_caller import OTHER_HOST, Streaming, greeted

from popmq_common.process.floods import TICK_S
from popmq_proxy.front.grpc_wire import framed
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.flow_control.outgoing import WAITING_BYTES
from popmq_proxy.front.http2.shared import TASKS_BETWEEN_LOOKS, Shared
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
    assert among.arrivals.budget.taken == 0


def break_one(among: Shared) -> None:
    """The request that began last cannot be ended."""
    among.arrivals._streams[next(reversed(among.arrivals._streams))] = None  # type: ignore[assignment]


async def test_a_request_that_cannot_be_given_up_ends_its_connection_alone() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    among = shared(arrival_s=10.0)
    broken, other = await greeted(among), await greeted(among, OTHER_HOST)
    await broken.give(broken.head(1))
    break_one(among)
    await other.give(other.head(1))
    pass_time(among, 10.0)
    assert broken.transport.aborted
    assert not other.connection.streams.open
    assert not other.transport.closed


async def test_a_stream_that_cannot_be_ended_holds_up_no_other_one_of_a_lost_connection() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    among = shared()
    caller = await greeted(among)
    await caller.give(caller.head(1), caller.head(3), caller.head(5))
    break_one(among)  # the first one that is dropped
    caller.connection.connection_lost(None)
    await turns()
    assert not caller.connection.streams.open


async def test_half_open_requests_leave_room_for_others() -> None:
    among = shared(arriving_max=64, streams_first=1_000)
    hog, other = await greeted(among), await greeted(among, OTHER_HOST)
    await hog.give(b"".join(hog.head(2 * number + 1) for number in range(200)))
    assert among.arrivals.budget.taken < 64
    assert await other.is_served()
    hog.connection.connection_lost(None)
    await turns()
    assert among.arrivals.budget.taken == 0


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


MESSAGE = framed([b"x" * 100])


@pytest.mark.parametrize("came", [1, 4, 5, len(MESSAGE) - 1])
async def test_a_stream_has_come_with_its_first_whole_message(came: int) -> None:
    among = shared(arrival_s=10.0)
    caller = await greeted(among, served_by=Streaming())
    await caller.give(caller.head(1), caller.head(3))
    await caller.give(wire.frame(wire.DATA, 0, 1, MESSAGE[:came]))
    await caller.give(wire.frame(wire.DATA, 0, 3, MESSAGE[:came]))
    assert among.arrivals.budget.taken == 2
    await caller.give(wire.frame(wire.DATA, 0, 3, MESSAGE[came:]))
    assert among.arrivals.budget.taken == 1
    pass_time(among, 10.0)
    await turns()
    assert list(caller.connection.streams.open) == [3]
    assert among.arrivals.budget.taken == 0


async def test_a_large_first_message_is_let_in_and_has_its_time() -> None:
    """It does not fit into a window, so it is served while it comes."""
    among = shared(arrival_s=10.0, stream_window_bytes=1_000)
    caller = await greeted(among, served_by=Streaming())
    message = framed([bytes(3_000)])
    await caller.give(caller.head(1))
    for at in range(0, 3_000, 600):
        await caller.give(wire.frame(wire.DATA, 0, 1, message[at : at + 600]))
        assert among.arrivals.budget.taken == 1
    await caller.give(wire.frame(wire.DATA, 0, 1, message[3_000:]))
    assert among.arrivals.budget.taken == 0
    pass_time(among, 20.0)
    await turns()
    assert list(caller.connection.streams.open) == [1]


async def test_streams_without_a_message_do_not_allow_more_of_them() -> None:
    caller = await greeted(shared(streams_first=8, streams_max=32), served_by=Streaming())
    for number in range(5):
        await caller.give(caller.head(2 * number + 1))
        await caller.give(wire.frame(wire.DATA, 0, 2 * number + 1, MESSAGE[:1]))
    assert caller.connection.streams.stream_max == 8
    for number in range(5):
        await caller.give(wire.frame(wire.DATA, 0, 2 * number + 1, MESSAGE[1:]))
    assert caller.connection.streams.stream_max == 16


# --- answers that are not read ---


async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    among = shared(stall_s=10.0)
    caller = await greeted(among)
    await caller.give(wire.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    await caller.give(caller.request(1, b"hello"))
    assert among.budgets.answer_buffer.taken == 5 + WAITING_BYTES
    pass_time(among, 5.0)
    await caller.give(wire.window_update(1, 1))
    pass_time(among, 9.0)
    assert among.budgets.answer_buffer.taken, "something was read in between"
    pass_time(among, 2.0)
    assert among.budgets.answer_buffer.taken == 0
    assert not caller.connection.streams.open


async def test_an_answer_that_has_no_room_to_wait_ends_its_call() -> None:
    among = shared(unread_bytes_max=8_000)
    caller, other = await greeted(among), await greeted(among, OTHER_HOST)
    await caller.give(wire.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    for stream_id in range(1, 41, 2):
        await caller.give(caller.request(stream_id, b"hello"))
    calm = wire.NUMBER.pack(Error.ENHANCE_YOUR_CALM)
    assert (wire.RST_STREAM, 0, calm) in caller.frames(39)
    assert among.budgets.answer_buffer.taken <= 8_000
    assert await other.is_served()
    caller.connection.connection_lost(None)
    await turns()
    assert among.budgets.answer_buffer.taken == 0


# --- garbage ---


async def test_young_objects_are_looked_at_while_calls_begin() -> None:
    """Though as many objects go: the collector by itself counts only how many there are more."""
    looks: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            looks.append(info["generation"])

    caller = await greeted(shared(idle_frames_max=100_000))
    gc.callbacks.append(look)
    threshold = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        for number in range(6 * TASKS_BETWEEN_LOOKS):
            await caller.give(caller.request(2 * number + 1, b"hello"))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(look)
    assert looks == [0, 0, 1, 0, 0, 1]
