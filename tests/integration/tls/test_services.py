"""Between services: proxy → broker, both → nameserver, and whoever reads the metrics."""

import asyncio
import ssl
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import uvloop
from harness.authority import HOUR
from harness.certificates import Certified
from harness.link import LOG, SEND, at, done, one_by_one
from harness.processes import free_port
from integration.tls.conftest import Signed
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from popmq_broker.app import server as broker
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.catalog.register import GrpcAnnouncer
from popmq_broker.rpc.health import health
from popmq_broker.rpc.link import LinkServer
from popmq_cli.cluster.probe import serving
from popmq_common.errors import BrokerUnreachable, NameserverDown
from popmq_common.metrics.metrics_http import MetricsServer
from popmq_common.process.clock import SystemClock
from popmq_common.process.config import ConfigError
from popmq_common.tls.files import TlsFiles
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import link_files
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_nameserver.app import Nameserver, nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.clients.nameservers import GrpcNameservers
from popmq_proxy.config import ProxyConfig
from popmq_proxy.tls import broker_context

INFO = ns.BrokerInfo(name="b", address="b:1", epoch_ms=1, version=1)
LOOPS = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
Loop = Callable[[], asyncio.AbstractEventLoop]


def on(loop: Loop, main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main)


# --- the link ---


@asynccontextmanager
async def linked(signed: Signed, certificate: Certified, *, mutual: bool) -> AsyncIterator[int]:
    """The port of a broker's link."""
    config = BrokerConfig(
        create_groups=True,
        data_dir=signed.authority.folder,
        link_tls_cert=certificate.certificate,
        link_tls_key=certificate.key,
        link_tls_client_ca=signed.authority.pem if mutual else None,
    )
    tls = listening_context(link_files(config, "BROKER", config.link_tls_client_ca), LOG, "link")
    server = LinkServer(done, one_by_one(done), name="b", secret=b"", log=LOG, tls=tls)
    await server.start("127.0.0.1", 0)
    try:
        yield server.port
    finally:
        await server.stop()


async def reach(port: int, signed: Signed, shows: Certified | None, **settings: Any) -> None:
    certificate, key = shows or (None, None)
    files = {"link_tls_ca": signed.authority.pem, "link_tls_cert": certificate, "link_tls_key": key}
    config = ProxyConfig(**{**files, **settings})
    brokers = at(port, broker_context(config, LOG))
    try:
        assert (await brokers.call("b", SEND, 5_000)).HasField("done")
    finally:
        await brokers.close()


@LOOPS
@pytest.mark.usefixtures("warnings_too")
def test_a_broker_that_asks_for_certificates_refuses_proxies_without(
    signed: Signed, loop: Loop
) -> None:
    async def scenario() -> None:
        async with linked(signed, signed.server, mutual=True) as port:
            await reach(port, signed, signed.server)
            with capture_logs() as lines:
                for wrong in (None, signed.foreign):
                    with pytest.raises(BrokerUnreachable, match="POPMQ_PROXY_LINK_TLS_CERT"):
                        await reach(port, signed, wrong)
                with pytest.raises(BrokerUnreachable, match="set POPMQ_PROXY_LINK_TLS_CA"):
                    await reach(port, signed, None, link_tls_ca=None)
            await reach(port, signed, signed.server)
        assert [(line["event"], line["port"], line["reason"]) for line in lines] == [
            ("tls.refused", "link", "peer did not return a certificate"),
            (
                "tls.refused",
                "link",
                "certificate verify failed: unable to get local issuer certificate",
            ),
            ("tls.refused", "link", "wrong version number"),
        ]

    on(loop, scenario())


@LOOPS
def test_a_proxy_refuses_a_broker_that_its_authority_did_not_sign(
    signed: Signed, loop: Loop
) -> None:
    other_host = signed.authority.signed("other-host", hosts=("elsewhere",))
    foreign = signed.stranger.signed("broker")

    async def scenario() -> None:
        for wrong, says in ((foreign, "certificate verify failed"), (other_host, "IP address")):
            async with linked(signed, wrong, mutual=False) as port:
                with pytest.raises(BrokerUnreachable, match=says):
                    await reach(port, signed, None)

    on(loop, scenario())


@LOOPS
def test_a_certificate_that_expires_while_it_serves_is_refused(
    signed: Signed, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_looked_at(*_: object) -> None: ...

    async def scenario() -> None:
        async with linked(signed, expired, mutual=False) as port:
            with pytest.raises(BrokerUnreachable, match="certificate has expired"):
                await reach(port, signed, None)

    expired = signed.authority.signed("ended", ends=-HOUR)
    monkeypatch.setattr("popmq_common.tls.files.check_valid", not_looked_at)
    on(loop, scenario())


@LOOPS
@pytest.mark.usefixtures("at_every_handshake")
def test_new_files_serve_new_links(signed: Signed, loop: Loop, tmp_path: Path) -> None:
    async def scenario() -> None:
        mine = signed.authority.signed("broker", into=tmp_path)
        async with linked(signed, mine, mutual=False) as port:
            await reach(port, signed, None)
            signed.stranger.signed("broker", into=tmp_path)
            with pytest.raises(BrokerUnreachable, match="certificate verify failed"):
                await reach(port, signed, None)
            await reach(port, signed, None, link_tls_ca=signed.stranger.pem)

    on(loop, scenario())


async def test_who_says_nothing_in_a_handshake_is_hung_up_on(
    signed: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popmq_broker.rpc.link.GREETING_S", 0.1)
    async with linked(signed, signed.server, mutual=True) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


def test_settings_that_need_others_are_told(signed: Signed) -> None:
    alone = BrokerConfig(
        create_groups=True,
        data_dir=signed.authority.folder,
        link_tls_client_ca=signed.authority.pem,
    )
    with pytest.raises(ConfigError, match="set POPMQ_BROKER_LINK_TLS_CERT and POPMQ_BROKER_LINK_"):
        listening_context(link_files(alone, "BROKER", alone.link_tls_client_ca), LOG, "link")
    certificate, key = signed.server
    shown = ProxyConfig(link_tls_cert=certificate, link_tls_key=key)
    with pytest.raises(ConfigError, match="set POPMQ_PROXY_LINK_TLS_CA"):
        broker_context(shown, LOG)


# --- the broker's health ---


async def is_well(port: int, context: ssl.SSLContext | None) -> bool:
    """As a probe asks. Raises `OSError` for no answer."""
    if context is not None:
        context.set_alpn_protocols(["h2"])
    return await asyncio.to_thread(serving, f"localhost:{port}", 5, context)


@pytest.mark.parametrize("mutual", [False, True])
async def test_health_is_told_to_those_who_may_use_the_link(signed: Signed, mutual: bool) -> None:
    asks = signed.authority.pem if mutual else None
    certificate, key = signed.server
    files = TlsFiles(setting="POPMQ_X", certificate=certificate, key=key, authority=asks)
    async with health("127.0.0.1", free_port(), files, LOG) as port:
        assert await is_well(port, trusting(signed, signed.alice))
        with pytest.raises(OSError, match=r"."):
            await is_well(port, None)
        if not mutual:
            assert await is_well(port, trusting(signed))
            return
        for wrong in (None, signed.foreign, signed.expired):
            with pytest.raises(OSError, match=r"."):
                await is_well(port, trusting(signed, wrong))


async def test_a_brokers_health_has_the_files_of_its_link(signed: Signed, tmp_path: Path) -> None:
    certificate, key = signed.server
    config = BrokerConfig(
        data_dir=tmp_path,
        disk_reserve_bytes=0,
        port=0,
        health_port=free_port(),
        link_tls_cert=certificate,
        link_tls_key=key,
        link_tls_client_ca=signed.authority.pem,
    )
    async with broker(config, SystemClock()):
        assert await is_well(config.health_port, trusting(signed, signed.server))
        for wrong in (None, trusting(signed), trusting(signed, signed.foreign)):
            with pytest.raises(OSError, match=r"."):
                await is_well(config.health_port, wrong)


# --- the nameserver ---


@asynccontextmanager
async def naming(signed: Signed, server: Certified, *, mutual: bool) -> AsyncIterator[Nameserver]:
    config = NameserverConfig(
        port=0,
        tls_cert=server.certificate,
        tls_key=server.key,
        tls_client_ca=signed.authority.pem if mutual else None,
    )
    async with nameserver(config, SystemClock()) as found:
        yield found


def files(signed: Signed, shows: Certified | None) -> TlsFiles:
    certificate, key = shows or (None, None)
    return TlsFiles(
        setting="POPMQ_X_LINK_TLS", certificate=certificate, key=key, authority=signed.authority.pem
    )


async def ask(found: Nameserver, tls: TlsFiles | None) -> list[str]:
    client = GrpcNameservers((f"127.0.0.1:{found.port}",), tls)
    try:
        return [broker.name for broker in await client.brokers()]
    finally:
        await client.close()


async def register(found: Nameserver, tls: TlsFiles | None) -> None:
    announcer = GrpcAnnouncer(f"127.0.0.1:{found.port}", tls=tls)
    try:
        assert await announcer.register(ns.RegisterRequest(broker=INFO))
    finally:
        await announcer._stub.close()


async def test_a_nameserver_that_asks_for_certificates_refuses_whoever_has_none(
    signed: Signed,
) -> None:
    async with naming(signed, signed.server, mutual=True) as found:
        await register(found, files(signed, signed.server))
        assert await ask(found, files(signed, signed.server)) == ["b"]
        for wrong in (None, signed.foreign):
            with pytest.raises(NameserverDown, match=r"\(POPMQ_X_LINK_TLS_CERT\)"):
                await ask(found, files(signed, wrong))
            with pytest.raises(ConnectionError, match=r"\(POPMQ_X_LINK_TLS_CERT\)"):
                await register(found, files(signed, wrong))
        with pytest.raises(NameserverDown, match="if it speaks TLS"):
            await ask(found, None)


async def test_a_nameserver_that_the_authority_did_not_sign_is_not_believed(
    signed: Signed,
) -> None:
    foreign = signed.stranger.signed("nameserver")
    async with naming(signed, foreign, mutual=False) as found:
        with pytest.raises(NameserverDown, match=r"authority\.pem did not sign its certificate"):
            await ask(found, files(signed, None))
    elsewhere = signed.authority.signed("elsewhere", hosts=("elsewhere",))
    async with naming(signed, elsewhere, mutual=False) as found:
        with pytest.raises(NameserverDown, match="does not name the host"):
            await ask(found, files(signed, None))


@pytest.mark.usefixtures("at_every_handshake")
async def test_a_nameservers_client_shows_its_new_certificate(
    signed: Signed, tmp_path: Path
) -> None:
    mine = signed.stranger.signed("proxy", into=tmp_path)
    async with naming(signed, signed.server, mutual=True) as found:
        client = GrpcNameservers((f"127.0.0.1:{found.port}",), files(signed, mine))
        with pytest.raises(NameserverDown):
            await client.brokers()
        signed.authority.signed("proxy", into=tmp_path)
        assert await client.brokers() == []
        await client.close()


# --- metrics ---


def read(port: int, context: ssl.SSLContext) -> str:
    with urllib.request.urlopen(f"https://localhost:{port}/", timeout=5, context=context) as page:
        text: str = page.read().decode()
    return text


def trusting(signed: Signed, shows: Certified | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(signed.authority.pem))
    if shows is not None:
        made.load_cert_chain(shows.certificate, shows.key)
    return made


@pytest.mark.parametrize("mutual", [False, True])
async def test_metrics_are_https_for_those_who_may_read_them(signed: Signed, mutual: bool) -> None:
    files = TlsFiles(
        setting="POPMQ_X_METRICS_TLS",
        certificate=signed.server.certificate,
        key=signed.server.key,
        authority=signed.authority.pem if mutual else None,
    )
    tls, port = listening_context(files, LOG, "metrics"), free_port()
    async with MetricsServer(CollectorRegistry(), "127.0.0.1", port, tls=tls):
        page = await asyncio.to_thread(read, port, trusting(signed, signed.alice))
        assert "popmq_build_info" in page
        assert page.endswith("\n")
        if not mutual:
            page = await asyncio.to_thread(read, port, trusting(signed))
            assert "popmq_build_info" in page
            return
        for wrong in (None, signed.foreign):
            with pytest.raises((URLError, ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(read, port, trusting(signed, wrong))
