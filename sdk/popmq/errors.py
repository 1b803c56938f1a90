"""What can go wrong, by what the caller can do about it.

PopMQClientError
├── ServerUnreachable     no answer; worth another try
├── ClientClosed          it was used after it was closed, or closed before the answer came
├── NotHeld               the message was not received from a consumer that could settle it
├── NotAllSent            of several messages some were not stored; `results` has each
└── RefusedByServer       the server said no; `code` is its code
    ├── TopicNotFound  GroupNotFound
    ├── InvalidReceiptHandle     the message is no longer this consumer's
    └── TooManyRequests          not now; worth another try later
"""

from collections.abc import Sequence
from typing import Self

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq.send_receipt import SendReceipt


class PopMQClientError(Exception):
    retriable = False


class ServerUnreachable(PopMQClientError):
    retriable = True


class ClientClosed(PopMQClientError):
    pass


class NotHeld(PopMQClientError):
    pass


class NotAllSent(ExceptionGroup[PopMQClientError], PopMQClientError):
    """A group of what went wrong, so `except*` takes it apart."""

    results: list[SendReceipt | PopMQClientError]
    """Per message its receipt or its error, in the order of the messages."""

    def __new__(cls, results: "Sequence[SendReceipt | PopMQClientError]") -> Self:
        failed = [one for one in results if isinstance(one, PopMQClientError)]
        were = "was" if len(failed) == 1 else "were"
        text = f"{len(failed)} of {len(results)} messages {were} not stored: {failed[0]}"
        made = super().__new__(cls, text, failed)
        made.results = list(results)
        return made

    def __str__(self) -> str:
        return self.message

    def derive(  # type: ignore[override] # a part of them has no results
        self, found: "Sequence[PopMQClientError]", /
    ) -> ExceptionGroup[PopMQClientError]:
        return ExceptionGroup(self.message, found)


class RefusedByServer(PopMQClientError):
    def __init__(self, code: int, text: str) -> None:
        name = next((name for name, number in v2.Code.items() if number == code), str(code))
        super().__init__(f"{text} ({name})")
        self.code = code


class TopicNotFound(RefusedByServer):
    pass


class GroupNotFound(RefusedByServer):
    pass


class InvalidReceiptHandle(RefusedByServer):
    pass


class TooManyRequests(RefusedByServer):
    retriable = True


class BrokerUnavailable(RefusedByServer):
    retriable = True


_BY_CODE: dict[int, type[RefusedByServer]] = {
    v2.TOPIC_NOT_FOUND: TopicNotFound,
    v2.CONSUMER_GROUP_NOT_FOUND: GroupNotFound,
    v2.INVALID_RECEIPT_HANDLE: InvalidReceiptHandle,
    v2.TOO_MANY_REQUESTS: TooManyRequests,
    v2.PROXY_TIMEOUT: BrokerUnavailable,
}


def error_of(status: v2.Status) -> RefusedByServer:
    """The error of a status that is not OK."""
    return _BY_CODE.get(status.code, RefusedByServer)(status.code, status.message)


def check(status: v2.Status) -> None:
    """Raises the error of a status that is not OK."""
    if status.code != v2.OK:
        raise error_of(status)
