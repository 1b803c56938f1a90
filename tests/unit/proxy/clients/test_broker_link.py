"""A pop whose caller goes when its reply comes: nobody sees the messages, they are given back."""

import asyncio

import pytest
from harness.gathering import gathering_until
from harness.wire import all_frames, connected

from popmq_common.errors import BrokerDown, BrokerUnreachable, DeadlinePassed, NotPrimary
from popmq_common.link.frames import encode_frame
from popmq_common.link.sends import SendCall
from popmq_common.link.wire import failure_of
from popmq_common.records.receipt import Receipt, encode, of_run
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients import broker_link
from popmq_proxy.clients.broker_link import BrokerLink, Outcome

RUN = encode(Receipt(1, 2, 3, 0, 0, "b", 0, 7, 100, 1), "g", "t")


class Frames:
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        self.connection, self._wire = connected()

    @property
    def calls(self) -> list[link.Call]:
        """Which have left: one turn of the loop after they were made."""
        return [call for frame in all_frames(self._wire.data) for call in frame.calls]

    def reply(self, call: link.Call) -> None:
        reply = link.Reply(id=call.id)
        if call.pop.by_runs:
            reply.pop.runs.add(handle=RUN, queue_offsets=[7, 8])
        else:
            reply.pop.messages.add(handle="h")
        self.connection.data_received(encode_frame(link.Frame(replies=[reply])))

    def answer(self, call: link.Call) -> None:
        self.connection.data_received(encode_frame(link.Frame(replies=[link.Reply(id=call.id)])))

    @property
    def closed(self) -> bool:
        return self._wire.closed

    async def close(self, broker: BrokerLink) -> None:
        self.connection.connection_lost(None)
        await broker.close()

    async def given_back(self) -> list[str]:
        await asyncio.sleep(0)
        return [handle for call in self.calls for handle in call.release.handles]


async def asking(
    frames: Frames, timeout_ms: int, *, by_runs: bool = False
) -> tuple[BrokerLink, "asyncio.Task[link.Reply]"]:
    """A pop that has left."""
    broker = BrokerLink("b", frames.connection)
    call = link.Call(pop=link.Pop(group="g", topic="t", by_runs=by_runs))
    task = asyncio.create_task(broker.call(call, timeout_ms))
    for _ in range(2):
        await asyncio.sleep(0)
    assert [call.WhichOneof("body") for call in frames.calls] == ["pop"]
    return broker, task


@pytest.mark.parametrize("by_runs", [False, True], ids=["single", "by runs"])
@pytest.mark.parametrize("comes", ["before", "in between", "after"])
async def test_a_reply_that_comes_when_the_caller_goes(comes: str, by_runs: bool) -> None:
    """In between: it is cancelled, and has not run since."""
    frames = Frames()
    broker, task = await asking(frames, 60_000, by_runs=by_runs)
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
    given_back = [of_run(RUN, offset) for offset in (7, 8)] if by_runs else ["h"]
    assert await frames.given_back() == given_back
    await frames.close(broker)


async def test_what_comes_for_ended_polls_is_given_back_before_the_link_is_closed() -> None:
    """A proxy stops: its polls end, and the broker has answered one of them before it hears so."""
    frames = Frames()
    broker, task = await asking(frames, 60_000)
    (pop,) = frames.calls
    task.cancel()
    await asyncio.wait([task])
    closing = asyncio.create_task(broker.close())
    for _ in range(3):
        await asyncio.sleep(0)
    assert [call.WhichOneof("body") for call in frames.calls] == ["pop", "cancel", "ping"]
    assert not frames.closed
    frames.reply(pop)
    frames.answer(frames.calls[-1])
    for _ in range(3):
        await asyncio.sleep(0)
    assert await frames.given_back() == ["h"]
    assert frames.closed
    frames.connection.connection_lost(None)
    await closing


async def test_a_silent_broker_holds_up_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    if broker_link.__file__.endswith(".py"):  # no stand-in for a constant that is compiled
        monkeypatch.setattr(broker_link, "ANSWERS_S", 0.01)
    frames = Frames()
    broker, task = await asking(frames, 60_000)
    task.cancel()
    closing = asyncio.create_task(broker.close())
    while not frames.closed:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)
    frames.connection.connection_lost(None)
    await closing


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
        got = await frames.given_back()
    assert got == ["h"]
    await frames.close(broker)


async def test_sends_that_wait_for_others_leave_with_them() -> None:
    frames = Frames()
    broker = BrokerLink("b", frames.connection)
    broker._gathering = gathering_until(under_way=3)
    for number in (1, 2):
        broker.send(SendCall("t", 0, []), 60_000, lambda _: None)
        await asyncio.sleep(0)
        assert (frames.calls, broker.call_count) == ([], number)
    broker.send(SendCall("t", 0, []), 60_000, lambda _: None)
    await asyncio.sleep(0)
    assert [call.WhichOneof("body") for call in frames.calls] == ["send"] * 3
    await frames.close(broker)


async def begun_send(frames: Frames) -> tuple[BrokerLink, list[Outcome]]:
    broker, outcomes = BrokerLink("b", frames.connection), list[Outcome]()
    broker.send(SendCall("t", 0, []), 60_000, outcomes.append)
    await asyncio.sleep(0)
    return broker, outcomes


async def test_a_call_at_a_broker_that_has_moved_is_answered() -> None:
    """It refuses what it is asked for, and the call is made where it is now."""
    frames = Frames()
    broker, outcomes = await begun_send(frames)
    broker.retire("it has moved")
    with pytest.raises(BrokerUnreachable):
        broker.send(SendCall("t", 0, []), 60_000, outcomes.append)
    assert outcomes == []
    (call,) = frames.calls
    failure = failure_of(NotPrimary(broker="b", reason="another one is primary"))
    reply = link.Reply(id=call.id, failure=failure)
    frames.connection.data_received(encode_frame(link.Frame(replies=[reply])))
    assert [type(outcome) for outcome in outcomes] == [NotPrimary]
    await frames.close(broker)


async def test_nobody_waits_for_long_where_a_broker_was_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("popmq_proxy.clients.broker_link.ANSWERS_S", 0.0)
    frames = Frames()
    broker, outcomes = await begun_send(frames)
    broker.retire("it has moved")
    await asyncio.sleep(0.01)
    assert [type(outcome) for outcome in outcomes] == [BrokerDown]
    await frames.close(broker)
