"""What the link takes of its peers: bounded memory, time and numbers; and who may speak to it."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from harness.link import LOG, SEND, at, done, one_by_one, raw, read_frame, sends, serving

from popmq_broker.rpc.link import LinkServer
from popmq_common.errors import BadRequest, BrokerUnreachable
from popmq_common.link.frames import LENGTH, encode_frame
from popmq_common.link.link_tls import broker_context, proxy_context
from popmq_common.process.config import ConfigError
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.brokers import LinkBrokers


@pytest.mark.parametrize(
    ("opening", "greeting_s"),
    [
        (LENGTH.pack(60_000_000), 600),
        (LENGTH.pack(1) + b"\xff", 600),
        (encode_frame(link.Frame(calls=[SEND])), 600),
        (b"", 0.05),
        (b"\0", 0.05),
    ],
)
async def test_a_peer_that_shows_no_secret_gets_little_memory_and_little_time(
    opening: bytes, greeting_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popmq_broker.rpc.link.GREETING_S", greeting_s)
    async with serving(done) as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(opening)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


@pytest.mark.parametrize(
    ("bound", "what"),
    [
        ("popmq_broker.rpc.link.CALLS_MAX", "calls"),
        ("popmq_common.link.frames.PENDING_MAX", "messages"),
    ],
)
async def test_calls_beyond_a_bound_are_refused_one_by_one(
    bound: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(done) as (server, _), raw(server) as (reader, writer):
        monkeypatch.setattr(bound, 0)
        writer.write(sends(1))
        frame = await asyncio.wait_for(read_frame(reader), 5)
        assert frame is not None
        assert frame.replies[0].failure.error == "TooManyRequests"
        assert what in frame.replies[0].failure.fields["what"]
        monkeypatch.undo()
        writer.write(sends(2))
        frame = await asyncio.wait_for(read_frame(reader), 5)
        assert frame is not None
        assert frame.replies[0].HasField("done")


async def test_a_proxy_that_does_not_read_its_replies_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(done) as (server, _), raw(server) as (reader, writer):
        monkeypatch.setattr("popmq_common.link.frames.REFUSED_MAX", 0)
        writer.write(sends(1))
        assert await asyncio.wait_for(read_frame(reader), 5) is None


async def test_connections_beyond_the_bound_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_broker.rpc.link.CONNECTIONS_MAX", 1)
    async with serving(done) as (server, brokers):
        await brokers.call("b", SEND, 5_000)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await asyncio.wait_for(reader.read(), 2) == b""
        writer.close()
        await brokers.call("b", SEND, 5_000)


async def test_a_reply_too_large_for_the_link_fails_its_own_call_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("popmq_common.link.frames.FRAME_BYTES_MAX", 10_000)
    large_is_out = asyncio.Event()

    async def handle(call: link.Call) -> link.Reply:
        if call.WhichOneof("body") == "send":
            await large_is_out.wait()
            return await done(call)
        large_is_out.set()
        messages = [link.PoppedMessage(record=bytes(6_000)) for _ in range(2)]
        return link.Reply(pop=link.PopReply(messages=messages))

    async with serving(handle) as (_, brokers):
        bystander = asyncio.create_task(brokers.call("b", SEND, 5_000))
        with pytest.raises(BadRequest, match="the link's limit"):
            await brokers.call("b", link.Call(pop=link.Pop()), 5_000)
        assert (await bystander).HasField("done")


async def test_a_call_too_large_for_the_link_is_refused_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(done) as (_, brokers):
        await brokers.call("b", SEND, 5_000)
        monkeypatch.setattr("popmq_common.link.frames.FRAME_BYTES_MAX", 1_000)
        large = link.Send(records=[link.OutgoingRecord(body=bytes(2_000))])
        with pytest.raises(BadRequest, match="the link's limit"):
            await brokers.call("b", link.Call(send=large), 5_000)
        await brokers.call("b", SEND, 5_000)


async def test_names_of_brokers_that_do_not_exist_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They come from clients, in receipt handles."""
    monkeypatch.setattr("popmq_proxy.clients.brokers.FAILURES_MAX", 10)

    async def address(broker: str) -> str:
        raise BrokerUnreachable(broker=broker, reason="no nameserver knows it")

    brokers = LinkBrokers(address, b"")
    for number in range(30):
        with pytest.raises(BrokerUnreachable, match="no nameserver knows it"):
            await brokers.call(f"b{number}", SEND, 5_000)
    assert (len(brokers._failures), brokers._links, brokers._connecting) == (10, {}, {})
    await brokers.close()


def certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "b")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    path = folder / "broker.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(pem))
    return path


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"
    with pytest.raises(ConfigError, match="belong together"):
        broker_context(missing, None)
    with pytest.raises(ConfigError, match=r"none\.pem"):
        broker_context(missing, missing)
    with pytest.raises(ConfigError, match=r"none\.pem"):
        proxy_context(missing)


async def test_over_tls(tmp_path: Path) -> None:
    path = certificate(tmp_path)
    server = LinkServer(
        done, one_by_one(done), name="b", secret=b"", log=LOG, tls=broker_context(path, path)
    )
    await server.start("127.0.0.1", 0)
    trusting = at(server.port, proxy_context(path))
    assert (await trusting.call("b", SEND, 5_000)).HasField("done")
    strict = at(server.port, ssl.create_default_context())
    with pytest.raises(BrokerUnreachable, match="certificate verify failed"):
        await strict.call("b", SEND, 5_000)
    for brokers in (trusting, strict):
        await brokers.close()
    await server.stop()
