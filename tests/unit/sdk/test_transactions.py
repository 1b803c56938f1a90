"""What a transaction does when a server answers that a broker cannot be reached: it asks another
one, as a send does."""

from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.messages.ids import MessageIds
from popmq.errors import BrokerUnavailable, RefusedByServer
from popmq.producer.transaction import ClientTransactions

AWAY = v2.Status(code=v2.PROXY_TIMEOUT, message="away")
GONE = v2.Status(code=v2.TOPIC_NOT_FOUND, message="gone")
OK = v2.Status(code=v2.OK)


class Connection:
    """Answers with one status after the other."""

    def __init__(self, *statuses: v2.Status, whole: bool = False) -> None:
        self._statuses = list(statuses)
        self._whole = whole
        """The status is of the request, and there is no entry."""
        self.asked: list[Any] = []
        self.moves = 0
        self.stub = self
        self.SendMessage = self.EndTransaction = None

    def resource(self, name: str) -> v2.Resource:
        return v2.Resource(name=name)

    def go_elsewhere(self) -> None:
        self.moves += 1

    async def ask(self, method: Any, request: Any, attempts: int = 0) -> Any:
        self.asked.append(request)
        status = self._statuses.pop(0)
        if isinstance(request, service.EndTransactionRequest):
            return service.EndTransactionResponse(status=status)
        if self._whole and status.code != v2.OK:
            return service.SendMessageResponse(status=status)
        entry = service.SendResultEntry(status=status, message_id="01", transaction_id="x")
        return service.SendMessageResponse(status=OK, entries=[entry])

    @property
    def resolutions(self) -> list[Any]:
        asked = self.asked
        return [one.resolution for one in asked if isinstance(one, service.EndTransactionRequest)]


class Telemetry:
    orphans: Any = None

    async def publish(self, topic: v2.Resource) -> None:
        return


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq._core.backoff.Backoff.after", lambda *_: 0.0)


def transactions(connection: Any) -> ClientTransactions:
    telemetry: Any = Telemetry()
    return ClientTransactions(connection, telemetry, MessageIds(1, 2, 3), attempts=3)


@pytest.mark.parametrize("whole", [False, True])
async def test_the_same_message_is_sent_again_through_another_server(whole: bool) -> None:
    connection = Connection(AWAY, AWAY, OK, OK, whole=whole)
    async with transactions(connection).begin("t", b"paid") as half:
        assert half.message_id == "01"
    first, second, third, end = connection.asked
    assert first == second == third, "with one message id"
    assert (connection.moves, end.resolution) == (2, v2.COMMIT)


@pytest.mark.parametrize("whole", [False, True])
async def test_after_so_many_attempts_the_block_is_not_entered(whole: bool) -> None:
    connection = Connection(AWAY, AWAY, AWAY, whole=whole)
    with pytest.raises(BrokerUnavailable):
        async with transactions(connection).begin("t", b"paid"):
            raise AssertionError("nothing is stored")
    assert (len(connection.asked), connection.moves) == (3, 2)


async def test_what_is_refused_for_good_is_not_tried_again() -> None:
    connection = Connection(GONE)
    with pytest.raises(RefusedByServer):
        await transactions(connection).send("t", b"paid")
    assert (len(connection.asked), connection.moves) == (1, 0)


async def test_a_commit_is_tried_again_too() -> None:
    connection = Connection(OK, AWAY, OK)
    async with transactions(connection).begin("t", b"paid"):
        pass
    assert (connection.resolutions, connection.moves) == ([v2.COMMIT, v2.COMMIT], 1)


async def test_a_block_that_raises_rolls_back_and_its_error_is_what_is_seen() -> None:
    connection = Connection(OK, AWAY, OK)
    with pytest.raises(ZeroDivisionError):
        async with transactions(connection).begin("t", b"paid"):
            raise ZeroDivisionError
    assert connection.resolutions == [v2.ROLLBACK, v2.ROLLBACK]


async def test_a_rollback_that_fails_does_not_hide_why_the_block_raised() -> None:
    """The server asks about the transaction later."""
    connection = Connection(OK, AWAY, AWAY, AWAY)
    with pytest.raises(ZeroDivisionError):
        async with transactions(connection).begin("t", b"paid"):
            raise ZeroDivisionError
