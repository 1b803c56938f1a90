"""When the server has dealt with a client's settings: what of all that it says is the answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq.connection import telemetry as telemetry_module
from popmq.connection.telemetry import Telemetry

GROUP = v2.Resource(name="g")


class Stream:
    """What the client writes is there to be read; what the test puts comes to the client."""

    def __init__(self) -> None:
        self.written: asyncio.Queue[v2.Settings] = asyncio.Queue()
        self.said: asyncio.Queue[service.TelemetryCommand] = asyncio.Queue()

    async def write(self, command: service.TelemetryCommand) -> None:
        copied = v2.Settings()
        copied.CopyFrom(command.settings)
        self.written.put_nowait(copied)

    def done(self) -> bool:
        return False

    def cancel(self) -> None:
        return

    async def __aiter__(self) -> AsyncIterator[service.TelemetryCommand]:
        while True:
            yield await self.said.get()


class Stub:
    def __init__(self) -> None:
        self.stream = Stream()

    def Telemetry(self, requests: None, metadata: Any) -> Stream:
        return self.stream

    async def NotifyClientTermination(self, request: Any, **options: Any) -> None:
        return


@pytest.fixture
async def telemetry() -> AsyncIterator[Telemetry]:
    made = Telemetry(Stub(), lambda: ())
    yield made
    await made.close(1.0)


def answer(asked: v2.Settings) -> service.TelemetryCommand:
    """As a server gives it: with its own settings."""
    command = service.TelemetryCommand(settings=asked)
    command.settings.backoff_policy.max_attempts = 16
    return command


def subscribing(telemetry: Telemetry, topic: str) -> "asyncio.Task[None]":
    wanted = v2.FilterExpression(type=v2.TAG, expression="*")
    return asyncio.create_task(telemetry.subscribe(v2.Resource(name=topic), GROUP, wanted))


async def test_a_repeated_answer_and_a_question_are_no_answer_to_new_settings(
    telemetry: Telemetry,
) -> None:
    """The server repeats its first answer after a second, and asks about transactions at any time.
    Who takes that for the answer believes that the group has started in the new topic."""
    stub: Any = telemetry._stub
    stream: Stream = stub.stream
    first = subscribing(telemetry, "t")
    asked = await stream.written.get()
    stream.said.put_nowait(answer(asked))
    await first
    second = subscribing(telemetry, "u")
    more = await stream.written.get()
    stream.said.put_nowait(answer(asked))
    orphan = service.RecoverOrphanedTransactionCommand(transaction_id="x")
    stream.said.put_nowait(service.TelemetryCommand(recover_orphaned_transaction_command=orphan))
    for _ in range(10):
        await asyncio.sleep(0)
    assert stream.said.empty()
    assert not second.done()
    stream.said.put_nowait(answer(more))
    await second
    assert await telemetry.told("g")


async def test_settings_without_an_answer_are_told_to_nobody(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_module, "SETTINGS_S", 0.01)
    await subscribing(telemetry, "t")
    assert not await telemetry.told("g")


async def test_a_producer_is_answered_for_all_its_topics(telemetry: Telemetry) -> None:
    stub: Any = telemetry._stub
    stream: Stream = stub.stream
    for topic in ("t", "u"):
        publishing = asyncio.create_task(telemetry.publish(v2.Resource(name=topic)))
        asked = await stream.written.get()
        assert not publishing.done()
        stream.said.put_nowait(answer(asked))
        await publishing
    assert telemetry._told("")
