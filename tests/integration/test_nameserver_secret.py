"""A nameserver with a secret believes only brokers that know it; anybody may look."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc.aio import AioRpcError

from popmq_broker.app import server
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.catalog.register import GrpcAnnouncer
from popmq_common.process.clock import SystemClock
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_nameserver.app import Nameserver, nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.clients.nameservers import GrpcNameservers

SECRET = "the secret of this cluster"
TOPIC = link.TopicConfig(name="t", read_queues=2, write_queues=2, perm=6, message_type="NORMAL")


def info(address: str = "good:1", epoch_ms: int = 1) -> ns.BrokerInfo:
    return ns.BrokerInfo(name="b", address=address, epoch_ms=epoch_ms, version=1)


def registration(address: str = "good:1", epoch_ms: int = 1) -> ns.RegisterRequest:
    return ns.RegisterRequest(broker=info(address, epoch_ms), topics=[TOPIC])


@asynccontextmanager
async def serving(secret: str = SECRET) -> AsyncIterator[Nameserver]:
    async with nameserver(NameserverConfig(port=0, link_secret=secret), SystemClock()) as found:
        yield found


@asynccontextmanager
async def plain(port: int) -> AsyncIterator[Any]:
    """A stub that proves nothing."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield ns_grpc.NameserverStub(channel)


def announcer(found: Nameserver, secret: str = SECRET) -> GrpcAnnouncer:
    return GrpcAnnouncer(f"127.0.0.1:{found.port}", secret.encode())


async def refused(call: Awaitable[Any]) -> None:
    with pytest.raises(AioRpcError) as failed:
        await call
    assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "secret" in (failed.value.details() or "")


async def test_a_liar_neither_moves_nor_ends_nor_keeps_up_a_registration() -> None:
    async with serving() as found, plain(found.port) as liar:
        honest = announcer(found)
        assert await honest.register(registration())
        await refused(liar.Register(registration("liar:1", epoch_ms=2)))
        await refused(liar.Unregister(ns.UnregisterRequest(broker=info())))
        await refused(liar.Heartbeat(ns.HeartbeatRequest(broker=info())))
        assert [broker.address for broker in found.table.brokers()] == ["good:1"]
        assert await honest.heartbeat(info())
        await honest.unregister(info())
        assert found.table.brokers() == []


async def test_a_liar_with_another_secret_is_refused() -> None:
    async with serving() as found:
        liar = announcer(found, "some other secret")
        with pytest.raises(ConnectionError, match="secret"):
            await liar.register(registration())
        with pytest.raises(ConnectionError, match="secret"):
            await liar.unregister(info())
        assert found.table.brokers() == []


class Recording(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg] # only in stubs
    def __init__(self) -> None:
        self.said: dict[str, Any] = {}

    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], details: Any, request: Any
    ) -> Any:
        method = details.method.decode() if isinstance(details.method, bytes) else details.method
        self.said[method.rpartition("/")[2]] = request
        return await continuation(details, request)


async def test_what_was_recorded_brings_no_broker_back_and_takes_none_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = Recording()
    made = grpc.aio.insecure_channel

    def listened_to(address: str, options: Any) -> Any:
        return made(address, options=options, interceptors=[recorded])  # type: ignore[list-item] # only in stubs

    async with serving() as found, plain(found.port) as liar:
        with monkeypatch.context() as patch:
            patch.setattr(grpc.aio, "insecure_channel", listened_to)
            honest = announcer(found)
        assert await honest.register(registration())
        await honest.heartbeat(info())
        await honest.unregister(info())
        said = recorded.said
        assert SECRET.encode() not in b"".join(one.SerializeToString() for one in said.values())
        await refused(liar.Register(said["Register"]))
        assert found.table.brokers() == []
        again = announcer(found)
        assert await again.register(registration())
        await refused(liar.Unregister(said["Unregister"]))
        mixed = ns.RegisterRequest(proven=said["Heartbeat"].proven)
        await refused(liar.Register(mixed))
        assert found.table.brokers() == [info()]
        await again.unregister(info())


async def test_anybody_may_look() -> None:
    async with serving() as found:
        honest = announcer(found)
        assert await honest.register(registration())
        client = GrpcNameservers((f"127.0.0.1:{found.port}",))
        assert [route.broker.address for route in await client.lookup("t")] == ["good:1"]
        assert [broker.name for broker in await client.brokers()] == ["b"]
        await client.close()
        await honest.unregister(info())


async def test_a_broker_with_a_secret_registers_where_none_is_asked_for() -> None:
    async with serving(secret="") as found:
        honest = announcer(found)
        assert await honest.register(registration())
        assert await honest.heartbeat(info())
        await honest.unregister(info())
        assert found.table.brokers() == []


class Older(ns_grpc.NameserverServicer):
    """It does not know Challenge."""

    def __init__(self) -> None:
        self.registered: list[ns.RegisterRequest] = []

    async def Register(self, request: Any, context: Any) -> ns.RegisterResponse:
        self.registered.append(request)
        return ns.RegisterResponse(accepted=True)


async def test_a_broker_with_a_secret_registers_with_a_nameserver_of_before() -> None:
    older, grpc_server = Older(), grpc.aio.server()  # type: ignore[abstract]
    ns_grpc.add_NameserverServicer_to_server(older, grpc_server)  # type: ignore[no-untyped-call, unused-ignore]
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    await grpc_server.start()
    honest = GrpcAnnouncer(f"127.0.0.1:{port}", SECRET.encode())
    assert await honest.register(registration())
    assert older.registered == [registration()]
    with pytest.raises(ConnectionError):
        await honest.unregister(info())
    await grpc_server.stop(None)


async def test_a_cluster_whose_services_read_the_secret_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    async with AsyncExitStack() as stack:
        config = NameserverConfig(port=0, link_secret_file=path)
        found = await stack.enter_async_context(nameserver(config, SystemClock()))
        broker = BrokerConfig(
            create_groups=True,
            data_dir=tmp_path / "data",
            port=0,
            disk_reserve_bytes=0,
            nameservers=(f"127.0.0.1:{found.port}",),
            link_secret_file=path,
        )
        running = await stack.enter_async_context(server(broker, SystemClock()))
        await running.broker.handle(link.Call(put_topic=link.PutTopic(topic=TOPIC)))
        assert [route.broker.name for route in found.table.lookup("t")] == ["broker-a"]
