"""Calls that the servers do not know, because they are no PopMQ's or of an older version.

A client outlives its servers: one that is replaced may know the call, so it is tried again.
"""

import time
from collections.abc import Callable
from typing import Final

import grpc

from popmq.errors import ServerUnreachable

TRIED_AGAIN_S: Final = 60.0


class UnknownCalls:
    """Of one client; a call is in it for `TRIED_AGAIN_S` after it was added."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._until_s: dict[str, float] = {}

    def add(self, rpc: str) -> None:
        self._until_s[rpc] = self._now_s() + TRIED_AGAIN_S

    def __contains__(self, rpc: str) -> bool:
        until_s = self._until_s.get(rpc)
        return until_s is not None and self._now_s() < until_s


def is_unknown(failed: Exception) -> bool:
    """Whether a call ended with this because its server does not know it."""
    cause = failed.__cause__ if isinstance(failed, ServerUnreachable) else failed
    if not isinstance(cause, grpc.aio.AioRpcError):
        return False
    return cause.code() is grpc.StatusCode.UNIMPLEMENTED
