"""grpc.health.v1: is this proxy serving? Asked by load balancers and `popmq health`."""

import asyncio
from collections.abc import AsyncIterator

from grpc_health.v1 import health_pb2 as health

from popmq_common.errors import ServiceNotFound, TooManyRequests
from popmq_proxy.rpc.shared.context import CallContext

WATCHERS_MAX = 1_000


class HealthHandler:
    """The proxy as a whole, named by the empty string; it has no services of their own standing."""

    def __init__(self) -> None:
        self._status = health.HealthCheckResponse.SERVING
        self._stopping = asyncio.Event()
        self._watchers = 0

    def stop(self) -> None:
        """From now on not serving; those who watch are told."""
        self._status = health.HealthCheckResponse.NOT_SERVING
        self._stopping.set()

    async def check(
        self, ctx: CallContext, request: health.HealthCheckRequest
    ) -> health.HealthCheckResponse:
        """Raises `ServiceNotFound`."""
        if request.service:
            raise ServiceNotFound(service=request.service)
        return health.HealthCheckResponse(status=self._status)

    async def watch(
        self, ctx: CallContext, request: health.HealthCheckRequest
    ) -> AsyncIterator[health.HealthCheckResponse]:
        """The standing now and the one change there is; a name unknown stays unknown."""
        if self._watchers >= WATCHERS_MAX:
            raise TooManyRequests(what="health watchers", limit=WATCHERS_MAX)
        self._watchers += 1
        try:
            if request.service:
                yield health.HealthCheckResponse(status=health.HealthCheckResponse.SERVICE_UNKNOWN)
                await self._stopping.wait()
                return
            yield health.HealthCheckResponse(status=self._status)
            await self._stopping.wait()
            yield health.HealthCheckResponse(status=self._status)
        finally:
            self._watchers -= 1
