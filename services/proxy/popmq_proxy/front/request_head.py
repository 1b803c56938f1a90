"""What a request's headers say: whether it is gRPC, who calls, until when an answer is of use."""

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from popmq_proxy.front.events import Event
from popmq_proxy.front.grpc_wire import timeout_s
from popmq_proxy.rpc.shared.context import ANSWER_BYTES_MAX, CallContext

_NAMES: Final = ("x-mq-client-id", "x-mq-namespace", "x-mq-language", "grpc-encoding")
_CLIENTS_MAX: Final = 1_024
"""Whose headers are remembered; a header block is bounded, so are these."""


def is_grpc(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"content-type", b"").startswith(b"application/grpc")


class RequestHead(NamedTuple):
    """What requests have in common whose headers are written alike."""

    metadata: Mapping[str, str]
    is_call: bool
    """A gRPC call as clients make it: POST, with the header `te`."""


def head_of(scope: Event) -> RequestHead:
    """A front that knows requests to be alike gives them one list, `remembered`: what the first of
    them found is in it."""
    remembered: list[RequestHead] | None = scope.get("remembered")
    if remembered:
        return remembered[0]
    headers: dict[bytes, bytes] = scope["named"]
    get = headers.get
    metadata = _metadata(
        get(b"x-mq-client-id"), get(b"x-mq-namespace"), get(b"x-mq-language"), get(b"grpc-encoding")
    )
    secret = get(b"x-popmq-admin-secret")
    if secret is not None:
        metadata = {**metadata, "x-popmq-admin-secret": secret.decode("utf-8", "replace")}
    is_call = scope["method"] == "POST" and is_grpc(headers) and get(b"te") == b"trailers"
    head = RequestHead(metadata, is_call)
    if remembered is not None:
        remembered.append(head)
    return head


def context_of(scope: Event, head: RequestHead) -> CallContext:
    """Raises `GrpcError` for a time-out that cannot be read."""
    get = scope.get
    deadline_s = None
    timeout = scope["timeout"] if "timeout" in scope else scope["named"].get(b"grpc-timeout")
    if timeout is not None:
        remaining_s = timeout_s(timeout.decode("latin-1"))
        deadline_s = None if remaining_s is None else time.monotonic() + remaining_s
    fields = (
        head.metadata,
        scope["peer"],
        deadline_s,
        ANSWER_BYTES_MAX,
        get("signature"),
        get("certificate_user", ""),
        get("connection"),
        "",
    )
    return tuple.__new__(CallContext, fields)  # half the time of CallContext(…)


@lru_cache(maxsize=_CLIENTS_MAX)
def _metadata(*values: bytes | None) -> Mapping[str, str]:
    """What `_NAMES` say, mostly the same in all requests of a client. Nobody changes it."""
    return {
        name: value.decode("utf-8", "replace")
        for name, value in zip(_NAMES, values, strict=True)
        if value is not None
    }
