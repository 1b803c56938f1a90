"""What listens at an address: told by what it answers to the first bytes of several protocols."""

import asyncio
import json
import socket
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Final

from google.protobuf.message import DecodeError

from popmq import Tls
from popmq_internal.v1 import link_pb2 as link
from popmq_readings.doctor_checks import Listener

TIMEOUT_S: Final = 3.0
_SETTINGS_FRAME: Final = b"\0\0\0\x04\0\0\0\0\0"
HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS_FRAME
SETTINGS: Final = 4
"""The type of an HTTP/2 server's first frame, its fourth byte."""
_HEADER: Final = json.dumps({"code": 105, "language": "JAVA", "opaque": 1, "version": 401}).encode()
REMOTING_REQUEST: Final = struct.pack(">ii", 4 + len(_HEADER), len(_HEADER)) + _HEADER
"""RocketMQ 4 asks for a route like this: length, length of the header, the header as JSON."""
_HELLO: Final = link.Frame(hello=link.Hello(name="popmq doctor")).SerializeToString()
LINK_HELLO: Final = struct.pack(">I", len(_HELLO)) + _HELLO
"""As a proxy greets a broker of PopMQ; one with a secret closes the connection."""


async def probe(host: str, port: int, tls: Tls | None) -> tuple[Listener, str]:
    """What is there, and the error when it is wrong. `tls` None: connected without."""
    try:
        first = await _answer(host, port, HTTP2_PREFACE)
    except socket.gaierror as unknown:
        return Listener.NO_SUCH_HOST, str(unknown.strerror or unknown)
    except TimeoutError:
        return Listener.SILENT, f"no connection within {TIMEOUT_S:g} s"
    except ConnectionRefusedError:
        return Listener.NOTHING, "the connection was refused"
    except OSError as failed:
        return Listener.SILENT, str(failed)
    if tls is not None:
        return await _with_tls(host, port, tls)
    if first[3:4] == bytes([SETTINGS]):
        return Listener.GRPC, ""
    if first.startswith((b"HTTP/1", b"<!DOCTYPE")):  # an old server drops the head of its answer
        return Listener.HTTP1, ""
    if await _speaks_tls(host, port):
        return Listener.TLS_ONLY, ""
    if await _speaks_remoting(host, port):
        return Listener.REMOTING, ""
    broker = await _link_of(host, port)
    if broker:
        return Listener.LINK, f"broker {broker} of PopMQ listens there, for proxies"
    return Listener.OTHER, f"it answered {first[:16]!r}" if first else ""


async def _with_tls(host: str, port: int, tls: Tls) -> tuple[Listener, str]:
    ca = None if tls.ca is None else tls.ca.decode()
    try:
        context = ssl.create_default_context(cadata=ca)
    except ssl.SSLError as wrong:
        return Listener.UNTRUSTED, f"the file of --tls-ca has no certificates: {wrong}"
    context.set_alpn_protocols(["h2"])
    try:
        _show_certificate(context, tls)
    except ssl.SSLError as wrong:
        text = f"--tls-cert and --tls-key are no certificate and its key: {wrong}"
        return Listener.UNTRUSTED, text
    try:
        async with _connected(host, port, context):
            return Listener.GRPC, ""
    except ssl.SSLCertVerificationError as untrusted:
        return Listener.UNTRUSTED, untrusted.verify_message
    except (OSError, TimeoutError) as failed:  # SSLError is an OSError
        return Listener.PLAINTEXT_ONLY, f"the handshake failed: {failed}"


def _show_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Python reads a certificate and its key from a file alone."""
    if tls.certificate is None or tls.key is None:
        return
    with tempfile.NamedTemporaryFile() as file:  # readable for this user alone
        file.write(tls.certificate + b"\n" + tls.key)
        file.flush()
        context.load_cert_chain(file.name)


async def is_local(host: str) -> bool:
    """The host is this machine, at addresses that no other reaches. Raises `OSError`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None)
    return all(ip_address(str(at[0]).partition("%")[0]).is_loopback for *_, at in found)


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with _connected(host, port, context):
            return True
    except (OSError, TimeoutError):
        return False


async def _speaks_remoting(host: str, port: int) -> bool:
    with suppress(OSError, TimeoutError):
        answer = await _answer(host, port, REMOTING_REQUEST)
        return b'"opaque":1' in answer.replace(b" ", b"")
    return False


async def _link_of(host: str, port: int) -> str:
    """The name of the broker whose link it is; empty: it is none, or wants a secret."""
    with suppress(OSError, TimeoutError, DecodeError):
        answer = await _answer(host, port, LINK_HELLO)
        return link.Frame.FromString(answer[4:]).hello.name
    return ""


async def _answer(host: str, port: int, request: bytes) -> bytes:
    """The first bytes that come back; none when it closes, or waits. Raises `OSError`,
    `TimeoutError` when it cannot be connected."""
    async with _connected(host, port, None) as (reader, writer):
        writer.write(request)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                return await reader.read(4_096)
        return b""


@asynccontextmanager
async def _connected(
    host: str, port: int, context: ssl.SSLContext | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(TIMEOUT_S):
        name = host if context is not None else None
        reader, writer = await asyncio.open_connection(
            host, port, ssl=context, server_hostname=name
        )
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                await writer.wait_closed()


async def unreachable(addresses: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Those that cannot be connected, and why."""
    found = {}
    for host, port in addresses:
        try:
            async with _connected(host, port, None):
                pass
        except TimeoutError:
            found[f"{host}:{port}"] = f"no connection within {TIMEOUT_S:g} s"
        except OSError as failed:
            found[f"{host}:{port}"] = str(failed.strerror or failed)
    return found
