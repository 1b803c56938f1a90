"""Calls to a broker of the same process."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from harness.gathering import until

from popmq_common.errors import BrokerUnreachable, DeadlinePassed, DiskFull
from popmq_common.link.sends import SendCall
from popmq_common.link.wire import failure_of
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.local_brokers import LocalBroker, LocalBrokers


class Recording:
    """A broker that keeps what it was asked; `go` answers the sends."""

    def __init__(self) -> None:
        self.batches: list[Sequence[link.Call | SendCall]] = []
        self._answer: Callable[[link.Reply], None] = lambda reply: None

    async def handle(self, call: link.Call) -> link.Reply:
        await asyncio.sleep(3_600)
        return link.Reply()

    def handle_sends(
        self, calls: Sequence[link.Call | SendCall], answer: Callable[[link.Reply], None]
    ) -> None:
        self.batches.append(calls)
        self._answer = answer

    def broker(self) -> LocalBroker:
        return LocalBroker(self.handle, self.handle_sends)

    def go(self, failure: link.Failure | None = None) -> None:
        for i, call in enumerate(self.batches[-1]):
            reply = link.Reply(id=call.id, send=link.SendReply(queue_offset=i))
            if failure is not None:
                reply = link.Reply(id=call.id, failure=failure)
            self._answer(reply)


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def brokers(recording: Recording) -> LocalBrokers:
    return LocalBrokers({"b": recording.broker()})


def send(brokers: LocalBrokers, timeout_ms: int = 5_000) -> "asyncio.Task[link.Reply]":
    return asyncio.ensure_future(brokers.call("b", SendCall("t", 0, []), timeout_ms))


async def test_sends_of_one_turn_go_together(brokers: LocalBrokers, recording: Recording) -> None:
    first = [send(brokers) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = send(brokers)
    await asyncio.sleep(0)
    recording.go()
    replies = await asyncio.gather(*first)
    assert [reply.send.queue_offset for reply in replies] == [0, 1, 2]
    await asyncio.sleep(0)
    recording.go()
    await later
    assert [len(batch) for batch in recording.batches] == [3, 1]


async def test_sends_that_wait_for_others_go_with_them(recording: Recording) -> None:
    brokers = LocalBrokers({"b": recording.broker()})
    brokers._linger = until(under_way=3)
    tasks = []
    for _ in range(3):
        assert not recording.batches
        tasks.append(send(brokers))
        await asyncio.sleep(0.001)
    recording.go()
    replies = await asyncio.gather(*tasks)
    assert [reply.send.queue_offset for reply in replies] == [0, 1, 2]


async def test_a_send_that_failed_raises_the_brokers_error(
    brokers: LocalBrokers, recording: Recording
) -> None:
    task = send(brokers)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    recording.go(failure_of(DiskFull(path="/d")))
    with pytest.raises(DiskFull):
        await task


async def test_nobody_waits_longer_than_the_time_out(
    brokers: LocalBrokers, recording: Recording
) -> None:
    with pytest.raises(DeadlinePassed):
        await send(brokers, timeout_ms=10)
    recording.go()  # too late, and nobody is there
    with pytest.raises(DeadlinePassed):
        await brokers.call("b", link.Call(pop=link.Pop()), 10)


async def test_an_unknown_broker_is_named(brokers: LocalBrokers) -> None:
    with pytest.raises(BrokerUnreachable, match="other"):
        await brokers.call("other", SendCall("t", 0, []), 10)
