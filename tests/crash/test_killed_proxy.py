"""A proxy is killed while a client handles a message: nobody gets it twice."""

import asyncio
from pathlib import Path

import grpc
from harness.processes import cluster
from integration.conftest import Raw
from integration.test_renewal import heartbeat, take

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc

LEASE_S = 2


async def test_t37_kill_9_of_the_proxy_and_the_ack_goes_through_another(tmp_path: Path) -> None:
    """The other one's signs of life renew the lease, and the handle is the first one's."""
    quick = {"POPMQ_PROXY_INVISIBLE_MS_DEFAULT": str(LEASE_S * 1_000)}
    with cluster(tmp_path, quick, brokers=1) as server:
        server.cli("topic", "create", "t", "--queues", "1")
        server.cli("group", "create", "g", "--from", "first")
        first, second = (server.processes[name] for name in ("proxy-1", "proxy-2"))
        async with (
            grpc.aio.insecure_channel(f"127.0.0.1:{first.port}") as to_first,
            grpc.aio.insecure_channel(f"127.0.0.1:{second.port}") as to_second,
        ):
            client = Raw(service_grpc.MessagingServiceStub(to_first), "", tmp_path)
            assert (await client.send("t")).status.code == v2.OK
            (message,) = await take(client, poll_ms=5_000)
            first.kill()
            client = Raw(service_grpc.MessagingServiceStub(to_second), "", tmp_path)
            for _ in range(6):
                await heartbeat(client)
                await asyncio.sleep(LEASE_S / 3)
            handle = message.system_properties.receipt_handle
            assert (await client.ack("t", handle)).status.code == v2.OK
            assert await take(client, poll_ms=LEASE_S * 1_500) == []
