"""A pop whose caller goes when its reply comes: nobody sees the messages, they are given back."""

import asyncio
from collections.abc import Callable

import pytest

from popmq_common.errors import DeadlinePassed
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import BrokerLink


class Frames:
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.calls: list[link.Call] = []
        self._receive: Callable[[link.Frame], None] = lambda _: None

    def begin(self, receive: Callable[[link.Frame], None]) -> None:
        self._receive = receive

    def put(self, call: link.Call) -> None:
        self.calls.append(call)

    def check_room(self) -> None: ...

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def reply(self, call: link.Call) -> None:
        reply = link.Reply(id=call.id)
        reply.pop.messages.add(handle="h")
        self._receive(link.Frame(replies=[reply]))

    @property
    def given_back(self) -> list[str]:
        return [handle for call in self.calls for handle in call.release.handles]


async def asking(frames: Frames, timeout_ms: int) -> tuple[BrokerLink, "asyncio.Task[link.Reply]"]:
    """A pop that has left."""
    broker = BrokerLink("b", frames)  # type: ignore[arg-type]
    call = link.Call(pop=link.Pop(group="g", topic="t"))
    task = asyncio.create_task(broker.call(call, timeout_ms))
    await asyncio.sleep(0)
    assert [call.WhichOneof("body") for call in frames.calls] == ["pop"]
    return broker, task


@pytest.mark.parametrize("comes", ["before", "in between", "after"])
async def test_a_reply_that_comes_when_the_caller_goes(comes: str) -> None:
    """In between: it is cancelled, and has not run since."""
    frames = Frames()
    broker, task = await asking(frames, 60_000)
    (pop,) = frames.calls
    if comes == "before":
        frames.reply(pop)
    task.cancel()
    if comes == "in between":
        frames.reply(pop)
    with pytest.raises(asyncio.CancelledError):
        await task
    if comes == "after":
        frames.reply(pop)
    assert frames.given_back == ["h"]
    await broker.close()


@pytest.mark.parametrize("turns", range(4))
async def test_a_reply_that_comes_when_the_time_is_over(turns: int) -> None:
    frames = Frames()
    broker, task = await asking(frames, 0)
    (pop,) = frames.calls
    for _ in range(turns):
        await asyncio.sleep(0)
    frames.reply(pop)
    try:
        got = [message.handle for message in (await task).pop.messages]
    except DeadlinePassed:
        got = frames.given_back
    assert got == ["h"]
    await broker.close()
