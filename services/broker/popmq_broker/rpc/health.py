"""grpc.health.v1 on a port of its own: the link is no gRPC, and probes know nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from popmq_common.process.fatal import running
from popmq_common.process.logs import Log
from popmq_common.tls.files import TlsFiles
from popmq_common.tls.grpc_tls import bind

GRACE_S = 0.5
LOOK_S = 0.5
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@asynccontextmanager
async def health(
    host: str,
    port: int,
    files: TlsFiles,
    log: Log,
    serves: Callable[[], bool] | None = None,
) -> AsyncIterator[int]:
    """The port, which says SERVING while the context lasts, and `serves` if it is given; port 0:
    none does.

    `files` are the link's: where the link speaks TLS, and asks for certificates, so does this.
    Answered on the event loop: a broker that does not get on does not answer. Raises `ConfigError`,
    and `RuntimeError` when the port is taken.
    """
    if not port:
        yield 0
        return
    servicer = HealthServicer()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    bound = bind(server, f"{host}:{port}", files, log)
    await server.start()
    await servicer.set("", SERVING)
    try:
        if serves is None:
            yield bound
        else:
            async with running(_follow(servicer, serves), log, "health.failed"):
                yield bound
    finally:
        await servicer.enter_graceful_shutdown()
        await server.stop(GRACE_S)


async def _follow(servicer: HealthServicer, serves: Callable[[], bool]) -> None:
    while True:
        await servicer.set("", SERVING if serves() else NOT_SERVING)
        await asyncio.sleep(LOOK_S)
