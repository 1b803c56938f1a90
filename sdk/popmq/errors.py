"""What can go wrong, by what the caller can do about it.

PopMQClientError
├── ServerUnreachable     no answer; worth another try
├── ClientClosed          it was used after it was closed, or closed before the answer came
├── NotHeld               the message was not received from a consumer that could settle it
├── NotAllSent            of several messages some were not stored; `results` has each
├── UnusableSettings      credentials or a context: half, unreadable, or readable for others
└── RefusedByServer       the server said no; `code` is its code
    ├── TopicNotFound  GroupNotFound
    ├── InvalidReceiptHandle     the message is no longer this consumer's
    ├── AccessDenied             no other try helps
    │   ├── Unauthorized         unknown user, wrong secret, or this user may not do it
    │   └── Forbidden            this user may not do it
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


class UnusableSettings(PopMQClientError):
    """What was given to connect with cannot be used; nothing was sent."""


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


class AccessDenied(RefusedByServer):
    """The server does not do this for this user. It is never tried again by itself."""

    def __init__(
        self, code: int, text: str, *, asked: str = "", user: str | None = None, endpoint: str = ""
    ) -> None:
        """`text`: as the server says it. `asked`: the call; empty: it is not known here. `user`
        None: the client has no credentials."""
        self.reason, self.asked, self.user, self.endpoint = text, asked, user, endpoint
        who = "without credentials" if user is None else f"as user {user!r}"
        super().__init__(code, f"{endpoint} refused {asked} {who}: {text}" if asked else text)
        if asked and "admin secret" not in text:  # then the server says what to do
            self.args = (f"{self.args[0]}; {self._advice()}",)

    def _advice(self) -> str:
        if self.user is None and self.code != v2.FORBIDDEN:
            variables = "POPMQ_ACCESS_KEY and POPMQ_SECRET_KEY"
            return f"give the client credentials=Credentials(…), or set {variables}"
        permitted = "that this user may do it"
        if self.code == v2.FORBIDDEN:
            return f"have an operator check {permitted}"
        return f"check the access key and its secret, and {permitted}"


class Unauthorized(AccessDenied):
    pass


class Forbidden(AccessDenied):
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
    v2.UNAUTHORIZED: Unauthorized,
    v2.FORBIDDEN: Forbidden,
    v2.PROXY_TIMEOUT: BrokerUnavailable,
}


def error_of(status: v2.Status) -> RefusedByServer:
    """The error of a status that is not OK."""
    return _BY_CODE.get(status.code, RefusedByServer)(status.code, status.message)


def check(status: v2.Status) -> None:
    """Raises the error of a status that is not OK."""
    if status.code != v2.OK:
        raise error_of(status)
