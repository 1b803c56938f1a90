"""A poll gets what comes to any broker, also when the one that it waits at goes away."""

import asyncio
from pathlib import Path

import grpc
from harness.processes import cluster

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client

ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100"}


def test_a_poll_at_a_broker_that_is_killed_gets_what_the_other_one_has(tmp_path: Path) -> None:
    async def scenario(endpoint: str) -> list[bytes]:
        async with Client(endpoint) as client:
            queues = await client.receiving.brokers("t")
            polls = [
                asyncio.create_task(client.receive("t", "g", wait_s=20.0, invisible_s=30.0))
                for _ in queues  # one waits at each broker
            ]
            await asyncio.sleep(1.0)
            await asyncio.to_thread(server.processes["broker-b"].kill)
            await asyncio.sleep(1.0)
            for number in range(2):
                await client.send("t", b"%d" % number)
            found = []
            for poll in asyncio.as_completed(polls):
                messages = await poll
                found += [message.body for message in messages]
                if len(found) == 2:
                    break
            for waiting in polls:
                waiting.cancel()
            await asyncio.gather(*polls, return_exceptions=True)
            return found

    with cluster(tmp_path, ENV, brokers=2, proxies=1) as server:
        server.cli("topic", "create", "t", "--queues", "1")
        server.cli("group", "create", "g", "--from", "first")
        assert sorted(asyncio.run(scenario(server.endpoint))) == [b"0", b"1"]


def receive(broker: str) -> service.ReceiveMessageRequest:
    """A poll of 20 s that names `broker`."""
    topic = v2.Resource(name="t")
    queue = v2.MessageQueue(topic=topic, broker=v2.Broker(name=broker))
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name="g"), message_queue=queue, batch_size=1
    )
    request.invisible_duration.seconds = 30
    request.long_polling_timeout.seconds = 20
    return request


def test_one_poll_gets_what_comes_to_any_broker(tmp_path: Path) -> None:
    """Each message long before the poll would end, whichever broker it named."""

    async def scenario(endpoint: str) -> list[float]:
        took_s: list[float] = []
        loop = asyncio.get_running_loop()
        async with Client(endpoint) as client, grpc.aio.insecure_channel(endpoint) as channel:
            stub = service_grpc.MessagingServiceStub(channel)
            metadata = (("x-mq-client-id", "me"),)
            for number in range(20):
                call = stub.ReceiveMessage(receive("broker-a"), metadata=metadata, timeout=30)
                if number == 0:  # the first one makes group and watches
                    await asyncio.sleep(1.0)
                await client.send("t", b"%d" % number)
                sent_s = loop.time()
                found = [one.message.body async for one in call if one.HasField("message")]
                took_s.append(loop.time() - sent_s)
                assert found == [b"%d" % number]
        return took_s

    with cluster(tmp_path, ENV, brokers=2, proxies=2) as server:
        server.cli("topic", "create", "t", "--queues", "2")
        took_s = asyncio.run(scenario(server.endpoint))
    assert max(took_s) < 5.0, took_s
