"""PopMQ behind a layer-7 proxy, as our SDK and a plain client of gRPC see it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from edge.edges import Edge
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client, Tls

LONG_POLL_S = 30.0
SILENT_S = 65.0
"""Longer than the minute after which edges end what is silent, unless told otherwise."""
SENT = 40
BACK_WITHIN_S = 20.0
"""A proxy is asked every two seconds whether it is well."""

pytestmark = pytest.mark.timeout(240)
WAYS = pytest.mark.parametrize("way", ["plaintext", "TLS"])


@asynccontextmanager
async def plain_client(edge: Edge, way: str, client_id: str = "edge@1@1@1") -> AsyncIterator[Raw]:
    """The stubs of grpcio and no more."""
    if way == "plaintext":
        channel = grpc.aio.insecure_channel(edge.endpoint)
    else:
        trusted = grpc.ssl_channel_credentials(edge.ca.read_bytes())
        channel = grpc.aio.secure_channel(edge.tls_endpoint, trusted)
    async with channel:
        stub = service_grpc.MessagingServiceStub(channel)
        yield Raw(stub, edge.endpoint, edge.ca.parent, client_id)


def sdk_client(edge: Edge, way: str) -> Client:
    if way == "plaintext":
        return Client(edge.endpoint)
    return Client(f"https://{edge.tls_endpoint}", tls=Tls.from_files(ca=edge.ca))


def bodies(responses: Sequence[service.ReceiveMessageResponse]) -> list[bytes]:
    return [one.message.body for one in responses if one.HasField("message")]


async def received(client: Client, topic: str, wanted: Sequence[bytes]) -> list[bytes]:
    """All that comes until these are there, each acked."""
    found: list[bytes] = []
    async with asyncio.timeout(60):
        while not set(wanted) <= set(found):
            messages = await client.receive(topic, topic, wait_s=2.0)
            found += [message.body for message in messages]
            if messages:
                await client.ack(*messages)
    return found


@WAYS
async def test_our_sdk_sends_receives_and_acks(edge: Edge, way: str) -> None:
    topic = f"sdk-{way}"
    edge.server.cli("group", "create", topic, "--from", "first")
    sent = [f"{number}".encode() for number in range(SENT)]
    async with sdk_client(edge, way) as client:
        for body in sent:
            await client.send(topic, body)
        large = bytes(3 << 20)
        await client.send(topic, large)
        found = await received(client, topic, [*sent, large])
        assert len(found) == SENT + 1
        assert await client.receive(topic, topic, wait_s=0.1) == []


@WAYS
async def test_plain_stubs_send_receive_and_ack(edge: Edge, way: str) -> None:
    topic = f"stubs-{way}"
    edge.server.cli("group", "create", topic, "--from", "first")
    async with plain_client(edge, way) as raw:
        assert (await raw.send(topic, b"hello")).status.code == v2.OK
        answer = await raw.receive(topic, topic, poll_ms=5_000)
        assert bodies(answer) == [b"hello"]
        (message,) = [one.message for one in answer if one.HasField("message")]
        handle = message.system_properties.receipt_handle
        assert (await raw.ack(topic, handle, topic)).status.code == v2.OK
        again = await raw.receive(topic, topic, poll_ms=1_500)
        assert again[0].status.code == v2.MESSAGE_NOT_FOUND


class Talk:
    """A client's Telemetry stream."""

    def __init__(self, raw: Raw) -> None:
        self._call: Any = raw.stub.Telemetry(metadata=raw.metadata)

    async def tell_settings(self) -> service.TelemetryCommand:
        """The server's answer."""
        settings = v2.Settings(client_type=v2.PRODUCER)
        settings.publishing.max_body_size = 1024
        await self._call.write(service.TelemetryCommand(settings=settings))
        async with asyncio.timeout(10):
            answer: service.TelemetryCommand = await self._call.read()
        return answer

    def close(self) -> None:
        self._call.cancel()


@WAYS
async def test_long_polls_are_answered_and_telemetry_stays(edge: Edge, way: str) -> None:
    """A poll of 30 s whose message comes late, one of 30 s for which none comes, one of 65 s, and
    a Telemetry stream that is silent meanwhile."""
    late, never, longer = (f"{name}-{way}" for name in ("late", "never", "longer"))
    async with plain_client(edge, way) as raw, plain_client(edge, way, "other@1@1@2") as other:
        for topic in (late, never, longer):
            await raw.send(topic, b"first")
            await raw.receive(topic, topic)  # makes the group, which starts here
        talk = Talk(raw)
        assert (await talk.tell_settings()).HasField("settings")

        async def poll(topic: str, seconds: float) -> list[service.ReceiveMessageResponse]:
            poll_ms = int(seconds * 1000)
            return await raw.receive(topic, topic, poll_ms=poll_ms, timeout=seconds + 10)

        polls = [
            asyncio.create_task(poll(topic, seconds))
            for topic, seconds in ((late, LONG_POLL_S), (never, LONG_POLL_S), (longer, SILENT_S))
        ]
        await asyncio.sleep(LONG_POLL_S - 5)
        assert not any(waiting.done() for waiting in polls)
        await other.send(late, b"late")
        async with asyncio.timeout(3):
            assert bodies(await polls[0]) == [b"late"]
        for waiting in polls[1:]:
            assert (await waiting)[0].status.code == v2.MESSAGE_NOT_FOUND
        assert (await talk.tell_settings()).HasField("settings")
        talk.close()


async def test_a_message_is_not_given_to_a_poll_that_was_taken_back(edge: Edge) -> None:
    topic = "taken-back"
    async with plain_client(edge, "plaintext", "goes@1@1@3") as goes:
        await goes.send(topic, b"first")
        await goes.receive(topic, topic)
        poll = asyncio.create_task(goes.receive(topic, topic, poll_ms=60_000, timeout=70))
        await asyncio.sleep(1)
        poll.cancel()
        await asyncio.sleep(1)
        async with plain_client(edge, "plaintext", "stays@1@1@4") as stays:
            await stays.send(topic, b"second")
            assert bodies(await stays.receive(topic, topic, poll_ms=5_000)) == [b"second"]


async def test_a_proxy_that_hangs_loses_its_calls(edge: Edge) -> None:
    """Its clients are told so, and served by the other one; later it is used again."""
    topic = "hangs"
    names = [f"client@1@1@{number}" for number in range(8)]
    async with AsyncExitStack() as open_clients:
        clients = [
            await open_clients.enter_async_context(plain_client(edge, "plaintext", name))
            for name in names
        ]
        await clients[0].send(topic, b"first")
        await clients[0].receive(topic, topic)
        polls = [
            asyncio.create_task(client.receive(topic, topic, poll_ms=60_000, timeout=70))
            for client in clients
        ]
        await asyncio.sleep(1)
        hung = edge.server.processes["proxy-2"].running
        assert hung is not None
        hung.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(BACK_WITHIN_S)
            ended = [poll for poll in polls if poll.done()]
            assert 0 < len(ended) < len(polls)
            for poll in ended:
                error = poll.exception()
                assert isinstance(error, grpc.aio.AioRpcError)
                assert error.code() is grpc.StatusCode.UNAVAILABLE
            for client in clients:
                assert (await client.send("other", b"x")).status.code == v2.OK
        finally:
            hung.send_signal(signal.SIGCONT)
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
    await asyncio.sleep(BACK_WITHIN_S / 2)  # until it is found well again


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_one_proxy_ends_and_comes_back(edge: Edge, end: str) -> None:
    """kill -9 of either proxy, or an orderly end: our SDK's calls succeed all the same, from both
    kinds of clients: those of the proxy that ends, and those of the other one."""
    topic = f"{end}-of-one"
    edge.server.cli("group", "create", topic, "--from", "first")
    sent: list[bytes] = []
    clients = [sdk_client(edge, "plaintext") for _ in range(6)]

    async def send(client: Client, number: int, ended: asyncio.Event) -> None:
        count = 0
        while not ended.is_set():
            body = f"{number}-{count}".encode()
            await client.send(topic, body)
            sent.append(body)
            count += 1
            await asyncio.sleep(0.02)

    ended = asyncio.Event()
    async with asyncio.TaskGroup() as sending:
        for number, client in enumerate(clients):
            sending.create_task(send(client, number, ended))
        for name in ("proxy-1", "proxy-2"):
            process = edge.server.processes[name]
            await asyncio.sleep(1)
            await asyncio.to_thread(process.kill if end == "kill" else process.stop)
            await asyncio.sleep(2)
            await asyncio.to_thread(process.start)
            # The next one ends when this one has been found well again.
            await asyncio.sleep(BACK_WITHIN_S / 2)
        ended.set()
    await received(clients[0], topic, sent)
    for client in clients:
        await client.close()
