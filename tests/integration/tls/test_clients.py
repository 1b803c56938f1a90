"""Clients → proxy: who gets in, as whom, and with which certificate of the server."""

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness.authority import Authority
from harness.certificates import Certified
from harness.processes import free_port
from integration.tls.conftest import Signed
from structlog.testing import capture_logs

from popmq import Client, Tls
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_common.process.config import ConfigError
from popmq_common.tls.contexts import ClientAuth, TlsVersion
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.front import grpcio
from popmq_proxy.front.request_handler import RequestHandler
from popmq_standalone.app import Listening, standalone


@asynccontextmanager
async def serving(
    folder: Path, server: Certified, front: Front = Front.HTTP2, **settings: Any
) -> AsyncIterator[Listening]:
    if front is Front.GRPCIO:
        settings.setdefault("tls_port", free_port())
    config = ProxyConfig(
        create_topics=True,
        port=0,
        front=front,
        tls_cert=server.certificate,
        tls_key=server.key,
        **settings,
    )
    broker = BrokerConfig(create_groups=True, data_dir=folder / "data", disk_reserve_bytes=0)
    async with standalone(broker, config, SystemClock()) as served:
        yield served.proxy


def client(port: int, authority: Authority, shows: Certified | None = None) -> Client:
    certificate, key = shows or (None, None)
    tls = Tls.from_files(ca=authority.pem, certificate=certificate, key=key)
    return Client(f"https://localhost:{port}", tls=tls)


def channel(port: int, authority: Authority, shows: Certified | None = None) -> grpc.aio.Channel:
    certificate, key = [path.read_bytes() for path in shows] if shows else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.pem.read_bytes(), key, certificate)
    return grpc.aio.secure_channel(f"localhost:{port}", credentials)


async def sends(port: int, authority: Authority, shows: Certified | None = None) -> None:
    async with client(port, authority, shows) as sending:
        assert (await sending.send("t", b"x")).message_id


async def refused(port: int, authority: Authority, shows: Certified | None = None) -> None:
    async with channel(port, authority, shows) as connecting:
        await unavailable(connecting)


async def unavailable(connecting: grpc.aio.Channel) -> None:
    """At once, not after a time-out."""
    health = health_pb2_grpc.HealthStub(connecting)
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await health.Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


def asking(signed: Signed, auth: ClientAuth) -> dict[str, Any]:
    return {"tls_client_auth": auth, "tls_client_ca": signed.authority.pem}


FRONTS = pytest.mark.parametrize("front", list(Front))


@FRONTS
async def test_with_mtls_only_a_right_certificate_lets_in(
    tmp_path: Path, signed: Signed, front: Front
) -> None:
    asks = asking(signed, ClientAuth.REQUIRED)
    async with serving(tmp_path, signed.server, front, **asks) as proxy:
        await sends(proxy.tls_port, signed.authority, signed.alice)
        for wrong in (None, signed.foreign, signed.expired):
            await refused(proxy.tls_port, signed.authority, wrong)
        await sends(proxy.tls_port, signed.authority, signed.alice)


async def test_an_optional_certificate_is_checked_if_it_is_shown(
    tmp_path: Path, signed: Signed
) -> None:
    asks = asking(signed, ClientAuth.OPTIONAL)
    async with serving(tmp_path, signed.server, **asks) as proxy:
        await sends(proxy.tls_port, signed.authority)
        await sends(proxy.tls_port, signed.authority, signed.alice)
        for wrong in (signed.foreign, signed.expired):
            await refused(proxy.tls_port, signed.authority, wrong)


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Who each call is of, as the front tells it."""
    found: list[str | None] = []
    call, context = RequestHandler.__call__, grpcio._context

    async def recorded(self: RequestHandler, scope: Any, receive: Any, send: Any) -> None:
        found.append(scope.get("certificate_user"))
        await call(self, scope, receive, send)

    def recorded_context(of: Any) -> Any:
        made = context(of)
        found.append(made.certificate_user or None)
        return made

    monkeypatch.setattr(RequestHandler, "__call__", recorded)
    monkeypatch.setattr(grpcio, "_context", recorded_context)
    return found


async def check(connecting: grpc.aio.Channel) -> None:
    """Two calls on one connection, by a client that says it is somebody else."""
    async with connecting:
        health = health_pb2_grpc.HealthStub(connecting)
        for _ in range(2):
            brought = (("x-popmq-certificate-user", "root"), ("certificate_user", "root"))
            await health.Check(health_pb2.HealthCheckRequest(), timeout=5, metadata=brought)


@FRONTS
async def test_the_certificates_name_is_the_user_and_no_client_brings_another(
    tmp_path: Path, signed: Signed, front: Front, users: list[str | None]
) -> None:
    named = signed.authority.signed("bob", hosts=("bob@example.org",))
    asks = asking(signed, ClientAuth.REQUIRED)
    async with serving(tmp_path, signed.server, front, **asks) as proxy:
        await check(channel(proxy.tls_port, signed.authority, signed.alice))
        await check(channel(proxy.tls_port, signed.authority, named))
        await check(grpc.aio.insecure_channel(f"localhost:{proxy.port}"))
    assert users == ["alice", "alice", "bob@example.org", "bob@example.org", None, None]


@FRONTS
async def test_who_is_not_asked_for_a_certificate_is_nobody(
    tmp_path: Path, signed: Signed, front: Front, users: list[str | None]
) -> None:
    async with serving(tmp_path, signed.server, front) as proxy:
        await check(channel(proxy.tls_port, signed.authority, signed.alice))
    assert users == [None, None]


@pytest.mark.usefixtures("at_every_handshake")
@FRONTS
async def test_a_new_certificate_serves_new_connections_and_ends_no_old_one(
    tmp_path: Path, signed: Signed, front: Front
) -> None:
    mine = tmp_path / "mine"
    before = signed.authority.signed("proxy", into=mine)
    async with (
        serving(tmp_path, before, front) as proxy,
        client(proxy.tls_port, signed.authority) as old,
    ):
        assert (await old.send("t", b"1")).message_id
        signed.stranger.signed("proxy", into=mine)
        await sends(proxy.tls_port, signed.stranger)
        await refused(proxy.tls_port, signed.authority)
        assert (await old.send("t", b"2")).message_id


@pytest.mark.usefixtures("at_every_handshake")
@FRONTS
async def test_a_broken_new_certificate_changes_nothing_and_is_told(
    tmp_path: Path, signed: Signed, front: Front
) -> None:
    mine = signed.authority.signed("proxy", into=tmp_path / "mine")
    async with serving(tmp_path, mine, front) as proxy:
        mine.certificate.write_text("broken")
        with capture_logs() as lines:
            await sends(proxy.tls_port, signed.authority)
        (line,) = {line["reason"] for line in lines if line["event"] == "certificate.refused"}
        assert "proxy.pem cannot be used: it holds no certificate" in line
        shutil.copy(signed.expired.certificate, mine.certificate)
        shutil.copy(signed.expired.key, mine.key)
        await sends(proxy.tls_port, signed.authority)


@FRONTS
async def test_with_tls_only_nobody_gets_in_without(
    tmp_path: Path, signed: Signed, front: Front
) -> None:
    async with serving(tmp_path, signed.server, front, tls_only=True, tls_port=0) as proxy:
        assert proxy.port == proxy.tls_port
        await sends(proxy.port, signed.authority)
        async with grpc.aio.insecure_channel(f"localhost:{proxy.port}") as plain:
            await unavailable(plain)


@pytest.mark.usefixtures("warnings_too")
async def test_a_plaintext_client_is_hung_up_on_at_once_and_told_of(
    tmp_path: Path, signed: Signed
) -> None:
    async with serving(tmp_path, signed.server, tls_only=True) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with capture_logs() as lines:
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            async with asyncio.timeout(5):
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
        writer.close()
    assert [(line["event"], line["client"]) for line in lines] == [("tls.refused", "127.0.0.1")]


def _handshake(port: int, context: ssl.SSLContext) -> str:
    with (
        socket.create_connection(("localhost", port), 5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        cipher = secured.cipher()
        return f"{secured.version()} {cipher[0] if cipher else ''}"


@pytest.mark.usefixtures("warnings_too")
async def test_versions_and_ciphers_are_as_set(tmp_path: Path, signed: Signed) -> None:
    old = ssl.create_default_context(cafile=str(signed.authority.pem))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    settings: dict[str, Any] = {"tls_ciphers": "ECDHE-ECDSA-AES128-GCM-SHA256"}
    async with serving(tmp_path / "1", signed.server, **settings) as proxy:
        spoken = await asyncio.to_thread(_handshake, proxy.port, old)
        assert spoken == "TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256"
    settings = {"tls_min_version": TlsVersion.V1_3}
    async with serving(tmp_path / "2", signed.server, **settings) as proxy:
        with capture_logs() as lines, pytest.raises(ssl.SSLError):
            await asyncio.to_thread(_handshake, proxy.port, old)
        assert [line["reason"] for line in lines] == ["unsupported protocol"]
        await sends(proxy.port, signed.authority)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls_client_auth": ClientAuth.REQUIRED}, "set POPMQ_PROXY_TLS_CLIENT_CA"),
        ({"tls_client_ca": Path("/x")}, "POPMQ_PROXY_TLS_CLIENT_AUTH to required or optional"),
        ({"tls_key": None}, "POPMQ_PROXY_TLS_CERT and POPMQ_PROXY_TLS_KEY belong together"),
        ({"tls_key": Path("/nowhere.key")}, "/nowhere.key cannot be read: No such file"),
        (
            {"front": Front.GRPCIO, "tls_port": 1, "tls_min_version": TlsVersion.V1_3},
            "or set POPMQ_PROXY_FRONT=http2",
        ),
        (
            {"front": Front.GRPCIO, "tls_port": 1, "tls_client_auth": ClientAuth.OPTIONAL},
            "or POPMQ_PROXY_FRONT=http2",
        ),
    ],
)
async def test_what_cannot_be_is_told_at_the_start(
    tmp_path: Path, signed: Signed, settings: dict[str, Any], says: str
) -> None:
    certificate, key = signed.server
    config = ProxyConfig(**{"port": 0, "tls_cert": certificate, "tls_key": key, **settings})
    broker = BrokerConfig(create_groups=True, data_dir=tmp_path / "data", disk_reserve_bytes=0)
    with pytest.raises(ConfigError, match=says):
        async with standalone(broker, config, SystemClock()):
            pass
