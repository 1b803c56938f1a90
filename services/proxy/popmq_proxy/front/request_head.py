"""What a request's headers say: whether it is gRPC, who calls, until when an answer is of use."""

import time

from popmq_proxy.front.events import Event
from popmq_proxy.front.grpc_wire import timeout_s
from popmq_proxy.rpc.context import CallContext

_LOOKED_AT = [
    (name.encode(), name)
    for name in (
        "x-mq-client-id",
        "x-mq-namespace",
        "x-mq-language",
        "x-popmq-admin-secret",
        "grpc-encoding",
    )
]
"""Headers that somebody wants to know; the others are not even decoded."""


def is_grpc(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"content-type", b"").startswith(b"application/grpc")


def context_of(scope: Event, headers: dict[bytes, bytes]) -> CallContext:
    """Raises `GrpcError` for a time-out that cannot be read."""
    metadata: dict[str, str] = {}
    for key, name in _LOOKED_AT:
        value = headers.get(key)
        if value is not None:
            metadata[name] = value.decode("utf-8", "replace")
    deadline_s = None
    timeout = headers.get(b"grpc-timeout")
    if timeout is not None:
        remaining_s = timeout_s(timeout.decode("latin-1"))
        deadline_s = None if remaining_s is None else time.monotonic() + remaining_s
    client = scope.get("client")
    peer = "" if client is None else f"{client[0]}:{client[1]}"
    return CallContext(metadata, peer, deadline_s)
