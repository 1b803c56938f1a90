"""Calls of popmq.admin.v1, signed as the visitor; what fails is one error with a kind."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any, Final, TypeVar

import grpc

from popmq import Tls
from popmq._core.signature import Headers
from popmq.connection.endpoints import OPTIONS, Endpoints
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

TIMEOUT_S: Final = 10.0
SEARCH_S: Final = 20.0
"""A broker may have to bring its index up to date first."""
EXPLAIN_S: Final = 30.0
SPREAD_MAX: Final = 16
"""Calls of one page at a time."""
KEPT_MAX: Final = 512
SECRET_WORDS: Final = "admin secret"
T = TypeVar("T")
R = TypeVar("R")


class Failure(Enum):
    """Why there is no answer."""

    UNREACHABLE = "unreachable"
    NOT_KNOWN = "not known"
    """The server does not know who asks."""
    DENIED = "denied"
    NOT_THERE = "not there"
    OLDER = "older"
    """The server does not know the call."""
    REFUSED = "refused"


class CallFailed(Exception):
    def __init__(self, failure: Failure, text: str) -> None:
        super().__init__(text)
        self.failure, self.text = failure, text


_FAILURES: Final = {
    grpc.StatusCode.UNAVAILABLE: Failure.UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Failure.UNREACHABLE,
    grpc.StatusCode.UNAUTHENTICATED: Failure.NOT_KNOWN,
    grpc.StatusCode.PERMISSION_DENIED: Failure.DENIED,
    grpc.StatusCode.NOT_FOUND: Failure.NOT_THERE,
    grpc.StatusCode.UNIMPLEMENTED: Failure.OLDER,
}


def failure_of(failed: grpc.aio.AioRpcError, rpc: str) -> CallFailed:
    """An admin secret that is missing is a right that is missing, not a user."""
    text = failed.details() or failed.code().name
    kind = _FAILURES.get(failed.code(), Failure.REFUSED)
    if kind is Failure.NOT_KNOWN and SECRET_WORDS in text:
        kind = Failure.DENIED
    if kind is Failure.OLDER:
        text = f"the server does not know {rpc}: it is an older one, or no PopMQ"
    return CallFailed(kind, text)


class ClusterCalls:
    """One connection for all visitors; each call shows who asks."""

    def __init__(self, endpoint: str, tls: Tls | None, secret: str) -> None:
        """Raises `ValueError` for an endpoint that is none."""
        (self.address, *_), found = Endpoints.of(endpoint, tls)
        self._secret: Headers = (("x-popmq-admin-secret", secret),) if secret else ()
        if found is None:
            self._channel = grpc.aio.insecure_channel(self.address, OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(found.ca, found.key, found.certificate)
            self._channel = grpc.aio.secure_channel(self.address, credentials, OPTIONS)
        self._stub: Any = admin_grpc.AdminStub(self._channel)

    async def close(self) -> None:
        await self._channel.close(None)

    async def ask(
        self, rpc: str, request: Any, headers: Headers, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """Raises `CallFailed`."""
        method = getattr(self._stub, rpc)
        try:
            return await method(request, timeout=timeout_s, metadata=(*headers, *self._secret))
        except grpc.aio.AioRpcError as failed:
            raise failure_of(failed, rpc) from failed


class KeptAnswers:
    """Of the last moments: pages that are loaded together share them, and rights are asked seldom.
    By who asked and what; bounded."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, bytes], tuple[int, Any]] = {}

    async def ask(
        self,
        who: str,
        rpc: str,
        request: Any,
        now_ms: int,
        kept_ms: int,
        asking: Callable[[], Awaitable[Any]],
    ) -> tuple[int, Any]:
        """When it was answered, and the answer."""
        key = who, rpc, request.SerializeToString(deterministic=True)
        found = self._kept.get(key)
        if found is not None and 0 <= now_ms - found[0] < kept_ms:
            return found
        answer = now_ms, await asking()
        self._kept.pop(key, None)
        while len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = answer
        return answer

    def forget(self, who: str) -> None:
        """After a change."""
        for key in [key for key in self._kept if key[0] == who]:
            del self._kept[key]


async def answer_or_none(asking: Awaitable[T], *failures: Failure) -> T | None:
    """None: it failed in one of these ways. Raises `CallFailed` for the others."""
    try:
        return await asking
    except CallFailed as failed:
        if failed.failure in failures:
            return None
        raise


async def each(ask: Callable[[T], Awaitable[R]], among: Iterable[T]) -> list[R]:
    """A few at a time, answers in their order. Raises what the first that failed raised."""
    free = asyncio.Semaphore(SPREAD_MAX)

    async def one(wanted: T) -> R:
        async with free:
            return await ask(wanted)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(wanted)) for wanted in among]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several
    return [task.result() for task in tasks]
