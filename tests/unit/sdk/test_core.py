"""Ids, metadata and errors as official clients have them."""

import re
from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq import errors
from popmq._core.messages.ids import MessageIds
from popmq.producer.sending import Sending


def test_message_ids() -> None:
    ids = MessageIds(mac=0x0123456789AB, pid=0x1234, now_s=1_609_459_200 + 10)
    first, second = ids.next(), ids.next()
    assert first == "01" + "0123456789AB" + "1234" + "0000000A" + "00000000"
    assert second.endswith("00000001")
    assert re.fullmatch("[0-9A-F]{34}", second)


def test_two_clients_of_one_process_never_give_one_id_to_two_messages() -> None:
    """Also when they are made in the same second."""
    connection: Any = None
    first, second = Sending(connection, connection), Sending(connection, connection)
    given = [client.ids.next() for client in (first, second, first, second)]
    assert len(set(given)) == len(given)


def test_a_forked_process_gives_ids_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: 0xABCD)
    connection: Any = None
    assert Sending(connection, connection).ids.next()[14:18] == "ABCD"


@pytest.mark.parametrize(
    ("code", "error", "retriable"),
    [
        (v2.TOPIC_NOT_FOUND, errors.TopicNotFound, False),
        (v2.INVALID_RECEIPT_HANDLE, errors.InvalidReceiptHandle, False),
        (v2.TOO_MANY_REQUESTS, errors.TooManyRequests, True),
        (v2.PROXY_TIMEOUT, errors.BrokerUnavailable, True),
        (v2.UNAUTHORIZED, errors.Unauthorized, False),
        (v2.FORBIDDEN, errors.Forbidden, False),
        (v2.INTERNAL_ERROR, errors.RefusedByServer, False),
    ],
)
def test_errors_by_code(
    code: "v2.Code.ValueType", error: type[errors.RefusedByServer], retriable: bool
) -> None:
    with pytest.raises(error, match="why") as raised:
        errors.check(v2.Status(code=code, message="why"))
    assert raised.value.code == code
    assert raised.value.retriable is retriable


def test_ok_is_no_error() -> None:
    errors.check(v2.Status(code=v2.OK))
