"""Frames: read at any split, batched under load, alone when alone."""

import asyncio

import pytest
from harness.wire import Wire, all_frames, connected

from popmq_common.errors import BadRequest, TooManyRequests
from popmq_common.link.frames import FRAME_BYTES_MAX, LENGTH, encode_frame
from popmq_internal.v1 import link_pb2 as link

HELLO = encode_frame(link.Frame(hello=link.Hello(name="b")))


def large_call(size_bytes: int) -> link.Call:
    return link.Call(send=link.Send(records=[link.OutgoingRecord(body=bytes(size_bytes))]))


def call_ids(wire: Wire) -> list[list[int]]:
    return [[call.id for call in frame.calls] for frame in all_frames(wire.data)]


async def test_what_is_put_in_one_turn_of_the_loop_shares_a_frame() -> None:
    frames, wire = connected()
    frames.put(link.Call(id=1))
    await asyncio.sleep(0)
    for number in range(2, 102):
        frames.put(link.Call(id=number))
    await asyncio.sleep(0)
    assert call_ids(wire) == [[1], list(range(2, 102))]


async def test_what_may_wait_leaves_with_the_first_that_does_not() -> None:
    frames, wire = connected()
    for number in range(3):
        frames.put(link.Call(id=number), wait_s=3_600)
        await asyncio.sleep(0)
    assert call_ids(wire) == []
    frames.put(link.Call(id=3))
    await asyncio.sleep(0)
    assert call_ids(wire) == [[0, 1, 2, 3]]


async def test_what_may_wait_leaves_when_its_time_is_over() -> None:
    frames, wire = connected()
    frames.put(link.Call(id=1), wait_s=0.001)
    await asyncio.wait_for(frames.flush(), 5)
    assert call_ids(wire) == [[1]]


async def test_what_gathers_while_the_other_side_does_not_read_is_the_next_frame() -> None:
    frames, wire = connected()
    frames.pause_writing()
    for number in range(100):
        frames.put(link.Call(id=number))
        await asyncio.sleep(0)
    assert call_ids(wire) == []
    frames.resume_writing()
    assert call_ids(wire) == [list(range(100))]


async def test_a_large_frame_is_closed() -> None:
    frames, wire = connected()
    frames.pause_writing()
    for _ in range(4):
        frames.put(large_call(600_000))
    frames.resume_writing()
    assert [len(frame.calls) for frame in all_frames(wire.data)] == [2, 2]


async def test_much_that_comes_together_leaves_while_the_rest_is_still_being_put() -> None:
    frames, wire = connected()
    for _ in range(20):
        frames.put(large_call(4_000))
    assert len(all_frames(wire.data)) == 2
    await asyncio.sleep(0)
    assert sum(len(frame.calls) for frame in all_frames(wire.data)) == 20


async def test_the_bound_is_a_typed_refusal_of_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_common.link.frames.PENDING_MAX", 2)
    monkeypatch.setattr("popmq_common.link.frames.REFUSED_MAX", 3)
    frames, _ = connected()
    frames.check_room()
    frames.put(link.Call())
    frames.put(link.Call())
    with pytest.raises(TooManyRequests, match="limit is 2"):
        frames.check_room()
    frames.put(link.Reply())  # ends something that was begun
    with pytest.raises(TooManyRequests, match="limit is 3"):
        frames.put(link.Reply())


async def test_the_bound_counts_bytes_and_room_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_common.link.frames.PENDING_BYTES_MAX", 1_000)
    frames, _ = connected()
    frames.put(large_call(1_000))
    with pytest.raises(TooManyRequests, match="bytes waiting"):
        frames.check_room()
    await asyncio.wait_for(frames.flush(), 5)
    frames.check_room()


async def test_what_no_frame_can_hold_is_refused_and_nothing_of_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("popmq_common.link.frames.FRAME_BYTES_MAX", 3_000)
    frames, wire = connected()
    with pytest.raises(BadRequest, match="the link's limit is 3000"):
        frames.put(large_call(3_000))
    for _ in range(2):
        frames.put(large_call(2_000))
    await asyncio.wait_for(frames.flush(), 5)
    assert [len(frame.calls) for frame in all_frames(wire.data)] == [1, 1]


async def test_a_call_may_be_reused_as_soon_as_it_is_put() -> None:
    frames, wire = connected()
    call = link.Call(id=1)
    frames.put(call)
    call.id = 2
    frames.put(call)
    await asyncio.sleep(0)
    assert call_ids(wire) == [[1, 2]]


async def test_the_first_frame_is_awaited_and_what_follows_is_kept() -> None:
    frames, wire = connected()
    frames.data_received(HELLO + encode_frame(link.Frame(calls=[link.Call(id=7)])))
    first = await frames.greeting()
    assert first is not None
    assert first.hello.name == "b"
    assert not wire.reading
    frames.data_received(encode_frame(link.Frame(calls=[link.Call(id=8)])))  # was under way
    came: list[link.Frame] = []
    frames.begin(came.append)
    assert wire.reading
    assert [call.id for frame in came for call in frame.calls] == [7, 8]


async def test_the_first_frame_has_a_bound_of_its_own() -> None:
    frames, wire = connected(greeting_bytes_max=100)
    frames.data_received(LENGTH.pack(101))
    with pytest.raises(BadRequest, match="the limit is 100"):
        await frames.greeting()
    assert wire.closed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (LENGTH.pack(3) + b"\xff\xff\xff", "a frame that is none"),
        (LENGTH.pack(FRAME_BYTES_MAX + 1), "the limit is"),
    ],
)
async def test_what_is_no_frame_ends_the_connection(data: bytes, reason: str) -> None:
    frames, wire = connected()
    frames.begin(lambda _: None)
    frames.data_received(HELLO + data)
    with pytest.raises(BadRequest, match=reason):
        await frames.ended
    assert wire.closed


async def test_what_the_receiver_refuses_ends_the_connection_and_nothing_more_is_handed_over() -> (
    None
):
    came: list[link.Frame] = []

    def receive(frame: link.Frame) -> None:
        came.append(frame)
        raise BadRequest(reason="enough")

    frames, _ = connected()
    frames.begin(receive)
    frames.data_received(HELLO + HELLO)
    with pytest.raises(BadRequest, match="enough"):
        await frames.ended
    frames.data_received(HELLO)
    assert len(came) == 1


async def test_half_a_frame_is_the_end_and_a_connection_that_the_system_breaks_an_error() -> None:
    frames, _ = connected()
    frames.data_received(HELLO[:-1])
    frames.connection_lost(None)
    assert await frames.greeting() is None
    await frames.ended
    broken, _ = connected()
    broken.connection_lost(TimeoutError("the peer's machine is gone"))
    with pytest.raises(TimeoutError):
        await broken.ended


async def test_a_flush_ends_with_the_connection() -> None:
    frames, _ = connected()
    frames.pause_writing()
    frames.put(link.Call())
    flushing = asyncio.create_task(frames.flush())
    await asyncio.sleep(0)
    assert not flushing.done()
    frames.connection_lost(None)
    await asyncio.wait_for(flushing, 5)
