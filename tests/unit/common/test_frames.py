"""Frames: read at any split, batched under load, alone when alone."""

import asyncio

import pytest

from popmq_common.errors import BadRequest, TooManyRequests
from popmq_common.frames import FRAME_BYTES_MAX, LENGTH, FrameWriter, encode_frame, read_frame
from popmq_internal.v1 import link_pb2 as link


class Sink:
    """A stream writer whose peer reads when it is told to."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.may_drain = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def drain(self) -> None:
        await self.may_drain.wait()


def large_call(size_bytes: int) -> link.Call:
    return link.Call(send=link.Send(records=[link.OutgoingRecord(body=bytes(size_bytes))]))


async def frames(data: bytes) -> list[link.Frame]:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    found = []
    while (frame := await read_frame(reader)) is not None:
        found.append(frame)
    return found


async def test_what_gathers_while_a_frame_is_written_is_the_next_frame() -> None:
    sink = Sink()
    writer = FrameWriter(sink)  # type: ignore[arg-type]
    running = asyncio.create_task(writer.run())
    writer.put(link.Call(id=1))
    await asyncio.sleep(0)
    for number in range(2, 102):
        writer.put(link.Call(id=number))
    sink.may_drain.set()
    await asyncio.sleep(0.01)
    running.cancel()
    found = await frames(b"".join(sink.written))
    assert [[call.id for call in frame.calls] for frame in found] == [[1], list(range(2, 102))]


async def test_a_large_frame_is_closed() -> None:
    sink = Sink()
    sink.may_drain.set()
    writer = FrameWriter(sink)  # type: ignore[arg-type]
    body = link.OutgoingRecord(body=b"x" * 600_000)
    for number in range(4):
        writer.put(link.Call(id=number, send=link.Send(records=[body])))
    running = asyncio.create_task(writer.run())
    await asyncio.sleep(0.05)
    running.cancel()
    found = await frames(b"".join(sink.written))
    assert [len(frame.calls) for frame in found] == [2, 2]


async def test_the_bound_is_a_typed_refusal_of_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_common.frames.PENDING_MAX", 2)
    monkeypatch.setattr("popmq_common.frames.REFUSED_MAX", 3)
    writer = FrameWriter(Sink())  # type: ignore[arg-type]
    writer.check_room()
    writer.put(link.Call())
    writer.put(link.Call())
    with pytest.raises(TooManyRequests, match="limit is 2"):
        writer.check_room()
    writer.put(link.Reply())  # ends something that was begun
    with pytest.raises(TooManyRequests, match="limit is 3"):
        writer.put(link.Reply())


async def test_the_bound_counts_bytes_and_room_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_common.frames.PENDING_BYTES_MAX", 1_000)
    sink = Sink()
    sink.may_drain.set()
    writer = FrameWriter(sink)  # type: ignore[arg-type]
    writer.put(large_call(1_000))
    with pytest.raises(TooManyRequests, match="bytes waiting"):
        writer.check_room()
    running = asyncio.create_task(writer.run())
    await asyncio.wait_for(writer.flush(), 5)
    writer.check_room()
    running.cancel()


async def test_what_no_frame_can_hold_is_refused_and_nothing_of_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("popmq_common.frames.FRAME_BYTES_MAX", 3_000)
    sink = Sink()
    sink.may_drain.set()
    writer = FrameWriter(sink)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="the link's limit is 3000"):
        writer.put(large_call(3_000))
    for _ in range(2):
        writer.put(large_call(2_000))
    running = asyncio.create_task(writer.run())
    await asyncio.wait_for(writer.flush(), 5)
    running.cancel()
    assert [len(frame.calls) for frame in await frames(b"".join(sink.written))] == [1, 1]


async def test_a_call_may_be_reused_as_soon_as_it_is_put() -> None:
    sink = Sink()
    sink.may_drain.set()
    writer = FrameWriter(sink)  # type: ignore[arg-type]
    call = link.Call(id=1)
    writer.put(call)
    call.id = 2
    writer.put(call)
    running = asyncio.create_task(writer.run())
    await asyncio.wait_for(writer.flush(), 5)
    running.cancel()
    (frame,) = await frames(b"".join(sink.written))
    assert [call.id for call in frame.calls] == [1, 2]


async def test_bytes_that_are_no_frame_are_an_error() -> None:
    with pytest.raises(BadRequest, match="a frame that is none"):
        await frames(LENGTH.pack(3) + b"\xff\xff\xff")


async def test_a_connection_that_the_system_breaks_is_the_end() -> None:
    reader = asyncio.StreamReader()
    reader.set_exception(TimeoutError("the peer's machine is gone"))
    assert await read_frame(reader) is None


async def test_a_frame_is_read_at_any_split() -> None:
    data = encode_frame(link.Frame(hello=link.Hello(name="b")))
    for at in range(len(data)):
        reader = asyncio.StreamReader()
        reading = asyncio.create_task(read_frame(reader))
        reader.feed_data(data[:at])
        await asyncio.sleep(0)
        reader.feed_data(data[at:])
        frame = await reading
        assert frame is not None
        assert frame.hello.name == "b"


async def test_half_a_frame_is_the_end_and_an_impossible_one_an_error() -> None:
    data = encode_frame(link.Frame(hello=link.Hello(name="b")))
    assert await frames(data[:-1]) == []
    with pytest.raises(BadRequest, match="the limit is"):
        await frames(LENGTH.pack(FRAME_BYTES_MAX + 1))
