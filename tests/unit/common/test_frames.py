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


async def test_the_bound_is_a_typed_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_common.frames.PENDING_MAX", 2)
    writer = FrameWriter(Sink())  # type: ignore[arg-type]
    writer.put(link.Call())
    writer.put(link.Call())
    with pytest.raises(TooManyRequests):
        writer.put(link.Call())


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
