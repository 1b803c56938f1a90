"""A broker that stops, pauses, or is cut off: what becomes of calls that are under way, and of new
ones."""

import asyncio
import random

import pytest
from harness.link import LOG, SEND, done, next_call, one_by_one, read_frame, serving, talking

from popmq_broker.rpc.link import LinkServer
from popmq_common.errors import BrokerDown, BrokerSilent, BrokerUnreachable, PopMQError
from popmq_common.link.frames import encode_frame
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients import broker_link
from popmq_proxy.clients.brokers import LinkBrokers
from popmq_proxy.core.routing import broker_health as pulse

POP = link.Call(pop=link.Pop(group="g", topic="t"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed within a tenth of a second, and nothing is given up."""
    monkeypatch.setattr(broker_link, "TICK_S", 0.02)
    for name, seconds in (("PING_AFTER_S", 0.04), ("SILENT_AFTER_S", 0.04), ("SLEPT_S", 60.0)):
        monkeypatch.setattr(pulse, name, seconds)


async def until_silent(brokers: LinkBrokers) -> None:
    async with asyncio.timeout(20):
        while brokers.answers("b"):  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)


async def test_no_call_that_crosses_a_stop_is_left_in_doubt() -> None:
    """Each is answered, or was not taken: it can go to another broker without a second thought."""
    outcomes: list[str] = []

    async def send(brokers: LinkBrokers) -> None:
        rng = random.Random(len(outcomes))
        while True:
            try:
                await brokers.call("b", SEND, 5_000)
            except PopMQError as failed:
                outcomes.append(type(failed).__name__)
                return
            await asyncio.sleep(rng.uniform(0, 0.002))

    async with serving(done) as (server, brokers):
        await brokers.call("b", SEND, 5_000)
        senders = [asyncio.create_task(send(brokers)) for _ in range(64)]
        await asyncio.sleep(0.05)
        await server.stop()
        await asyncio.wait_for(asyncio.gather(*senders), 20)
    assert outcomes == ["BrokerUnreachable"] * 64


async def test_a_stop_is_told_and_does_not_wait_for_long() -> None:
    async with serving(done) as (server, brokers):
        await brokers.call("b", SEND, 5_000)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await server.stop(grace_s=60)
        assert loop.time() - began_s < 30
        assert not brokers.answers("b")
        with pytest.raises(BrokerUnreachable):
            await brokers.call("b", SEND, 5_000)


async def test_a_paused_broker_is_noticed_and_one_word_is_enough(quick: None) -> None:
    may_answer = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (frame := await read_frame(reader)) is not None:
            await may_answer.wait()
            replies = [link.Reply(id=call.id, done=link.Done()) for call in frame.calls]
            writer.write(encode_frame(link.Frame(replies=replies)))

    async with talking(talk) as brokers:
        assert brokers.answers("b"), "nobody has tried yet"
        waiting = asyncio.create_task(brokers.call("b", SEND, 60_000))
        await until_silent(brokers)
        assert brokers.silent() == {"b": True}
        assert not waiting.done(), "what is under way is left to its own time"
        may_answer.set()
        await waiting
        assert brokers.answers("b")
        assert brokers.silent() == {"b": False}


async def test_polls_at_a_silent_broker_end_so_that_they_can_go_on_elsewhere(quick: None) -> None:
    calls: asyncio.Queue[link.Call] = asyncio.Queue()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (frame := await read_frame(reader)) is not None:
            for call in frame.calls:
                calls.put_nowait(call)

    async with talking(talk) as brokers:
        with pytest.raises(BrokerSilent):
            await brokers.call("b", POP, 60_000)
        kinds = []
        while "cancel" not in kinds:
            kinds.append((await asyncio.wait_for(calls.get(), 20)).WhichOneof("body"))
    assert kinds == ["pop", "ping", "cancel"]


async def test_a_broker_that_is_silent_for_long_is_given_up(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "LOST_AFTER_S", 0.1)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_call(reader)
        await reader.read()

    async with talking(talk) as brokers:
        with pytest.raises(BrokerDown, match="has not answered for long"):
            await brokers.call("b", SEND, 60_000)


async def test_who_asks_whether_a_broker_answers_makes_it_be_tried_again() -> None:
    """All go elsewhere meanwhile: nobody else would."""
    port = 0

    async def address(broker: str) -> str:
        return f"127.0.0.1:{port}"

    brokers = LinkBrokers(address, b"")
    with pytest.raises(BrokerUnreachable):
        await brokers.call("b", SEND, 5_000)
    assert not brokers.answers("b")
    server = LinkServer(done, one_by_one(done), name="b", secret=b"", log=LOG)
    await server.start("127.0.0.1", 0)
    port = server.port
    async with asyncio.timeout(20):
        while not brokers.answers("b"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await brokers.close()
    await server.stop()
