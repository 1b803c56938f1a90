"""Build a nameserver from its configuration; the only file that knows all parts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from popmq_common.link import link_secret
from popmq_common.metrics.metrics_http import MetricsServer
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.fatal import running
from popmq_common.tls.files import TlsFiles
from popmq_common.tls.grpc_tls import bind
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import metrics_files
from popmq_common.units import MiB
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_nameserver.config import NameserverConfig
from popmq_nameserver.core.route_table import RouteTable
from popmq_nameserver.rpc import NameserverRpc

EXPIRE_EVERY_S = 1.0
GRACE_S = 1.0
REGISTRATION_BYTES_MAX = 64 * MiB  # gRPC's own limit, 4 MiB, is some 40,000 topics


@dataclass(frozen=True, slots=True)
class Nameserver:
    """A nameserver that serves."""

    port: int
    table: RouteTable


@asynccontextmanager
async def nameserver(config: NameserverConfig, clock: Clock) -> AsyncIterator[Nameserver]:
    """Serve until the context is left. Raises `ConfigError`, `RuntimeError` when the port is
    taken."""
    log = logs.get("nameserver")
    table = RouteTable(config.expiry_ms)
    secret = link_secret.read(config.link_secret, config.link_secret_file)
    metrics_tls = listening_context(metrics_files(config, "NAMESERVER"), log, "metrics")
    rpc = NameserverRpc(table, clock, log, secret)
    server = grpc.aio.server(
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", REGISTRATION_BYTES_MAX),
        ]
    )
    ns_grpc.add_NameserverServicer_to_server(rpc, server)  # type: ignore[no-untyped-call, unused-ignore]
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    port = bind(server, f"{config.host}:{config.port}", tls_files(config), log)
    await server.start()
    await health.set("", health_pb2.HealthCheckResponse.SERVING)
    try:
        async with (
            running(_expire(rpc), log, "nameserver.failed"),
            MetricsServer(rpc.registry, config.host, config.metrics_port, tls=metrics_tls),
        ):
            log.info("nameserver.started", port=port)
            yield Nameserver(port, table)
    finally:
        await server.stop(GRACE_S)
        log.info("nameserver.stopped")


def tls_files(config: NameserverConfig) -> TlsFiles:
    return TlsFiles(
        setting="POPMQ_NAMESERVER_TLS",
        certificate=config.tls_cert,
        key=config.tls_key,
        authority=config.tls_client_ca,
    )


async def _expire(rpc: NameserverRpc) -> None:
    while True:
        await asyncio.sleep(EXPIRE_EVERY_S)
        rpc.expire()
