"""What the SDK does when a server answers that a broker cannot be reached: it asks another one."""

from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import Message, SendReceipt
from popmq.errors import BrokerUnavailable
from popmq.producer.sending import Sending

AWAY = v2.Status(code=v2.PROXY_TIMEOUT, message="away")
OK = v2.Status(code=v2.OK)


class Connection:
    """Of each request it is told which of its messages are stored."""

    def __init__(self, *stored: set[bytes]) -> None:
        self._stored = list(stored)
        self.asked: list[list[bytes]] = []
        self.moves = 0
        self.stub = self
        self.SendMessage = None

    def resource(self, name: str) -> v2.Resource:
        return v2.Resource(name=name)

    def go_elsewhere(self) -> None:
        self.moves += 1

    async def ask(self, method: Any, request: bytes, attempts: int) -> Any:
        messages = service.SendMessageRequest.FromString(request).messages
        bodies = [message.body for message in messages]
        self.asked.append(bodies)
        stored = self._stored.pop(0)
        entries = [service.SendResultEntry(status=OK if b in stored else AWAY) for b in bodies]
        return service.SendMessageResponse(entries=entries)


class Telemetry:
    async def publish(self, topic: v2.Resource) -> None:
        return


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq._core.backoff.Backoff.after", lambda *_: 0.0)


async def send(connection: Connection, attempts: int) -> list[Any]:
    sending = Sending(connection, Telemetry())  # type: ignore[arg-type]
    messages = [Message(body=body) for body in (b"a", b"b", b"c")]
    return await sending.send("t", messages, attempts)


async def test_only_what_is_not_stored_is_sent_again_through_another_server() -> None:
    connection = Connection({b"a"}, {b"c"}, {b"b"})
    results = await send(connection, 3)
    assert all(isinstance(result, SendReceipt) for result in results)
    assert connection.asked == [[b"a", b"b", b"c"], [b"b", b"c"], [b"b"]]
    assert connection.moves == 2


async def test_after_so_many_attempts_the_error_is_told_message_by_message() -> None:
    connection = Connection({b"a"}, set())
    results = await send(connection, 2)
    assert isinstance(results[0], SendReceipt)
    assert [type(result) for result in results[1:]] == [BrokerUnavailable] * 2
