"""The status of a request with several entries. Users of official clients see its text alone."""

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import InvalidReceiptHandle, MessageBodyEmpty
from popmq_proxy.core.messages.status import OK, common, status_of

EXPIRED = status_of(InvalidReceiptHandle(reason="its invisible time is over"))


def test_it_names_the_code_of_the_entries() -> None:
    """As RocketMQ does; programs look for the name in the text."""
    found = common([EXPIRED, EXPIRED])
    assert found.code == v2.INVALID_RECEIPT_HANDLE
    assert found.message == f"INVALID_RECEIPT_HANDLE: {EXPIRED.message}"
    assert "invisible time is over" in found.message


def test_entries_of_several_codes() -> None:
    found = common([OK, EXPIRED, status_of(MessageBodyEmpty())])
    assert found.code == v2.MULTIPLE_RESULTS
    assert found.message == "MULTIPLE_RESULTS: see each entry's own status"


def test_ok_stays_as_it_is() -> None:
    assert common([OK, OK]) is OK
