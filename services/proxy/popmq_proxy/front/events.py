"""The words of ASGI that fronts and application share."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
SendWhole = Callable[[Event, bytes, Event], bool]
"""Head, body and trailers in one go. False: the client's windows do not allow that."""

# Beside ASGI's keys our own front's scope has `named`, the headers by name, `accounts`, what the
# client has of the budgets that all share (client_budgets.py), `whole`, a `SendWhole`, and
# `decoded`, how far the fast path has got with a request that it declines.


class ClientDisconnectedError(Exception):
    """The client went before it had its answer."""


HEADERS = [(b"content-type", b"application/grpc"), (b"grpc-accept-encoding", b"identity,gzip")]
START: Event = {
    "type": "http.response.start",
    "status": 200,
    "headers": HEADERS,
    "trailers": True,
}
END: Event = {
    "type": "http.response.trailers",
    "headers": [(b"grpc-status", b"0")],
    "more_trailers": False,
}
