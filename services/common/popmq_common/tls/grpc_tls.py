"""The same files for gRPC, which has contexts of its own.

gRPC speaks TLS 1.2 and 1.3. A server reads its files again when they change; a channel has them as
they were when it was made, so it is made again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import grpc

from popmq_common.process.logs import Log
from popmq_common.tls.contexts import (
    ClientAuth,
    ServerPolicy,
    client_context,
    server_context,
)
from popmq_common.tls.files import TlsFiles, needs_tls, read_bytes
from popmq_common.tls.followed import FollowedFiles

S = TypeVar("S")
RETIRED_S: Final = 30.0
"""How long calls of a channel that was made again may take to end."""


def bind(server: grpc.aio.Server, address: str, files: TlsFiles, log: Log) -> int:
    """The port; with TLS if `files` have a certificate. Raises `ConfigError`, and `RuntimeError`
    when the port is taken."""
    if files.pair() is not None:
        return server.add_secure_port(address, server_credentials(files, log))
    if files.authority is not None:
        raise needs_tls(files)
    return server.add_insecure_port(address)


def server_credentials(files: TlsFiles, log: Log) -> grpc.ServerCredentials:
    """Clients must show a certificate if `files` have an authority. Raises `ConfigError`."""
    auth = ClientAuth.NONE if files.authority is None else ClientAuth.REQUIRED
    policy = ServerPolicy(client_auth=auth)

    def make() -> grpc.ServerCertificateConfiguration:
        server_context(files, policy)  # says what is wrong; gRPC would not
        pair = files.pair()
        assert pair is not None
        certificate, key = pair
        authority = None if files.authority is None else read_bytes(files.authority)
        return certificate_configuration(read_bytes(key), read_bytes(certificate), authority)

    followed = FollowedFiles(files.paths, make, log)
    known = first = followed.current()

    def changed() -> Any:
        """None: they are as before. Called by gRPC's threads, at each handshake."""
        nonlocal known
        before, known = known, followed.current()
        return None if known is before else known

    return grpc.dynamic_ssl_server_credentials(first, changed, auth is ClientAuth.REQUIRED)


def certificate_configuration(
    key: bytes, certificate: bytes, authority: bytes | None
) -> grpc.ServerCertificateConfiguration:
    """All PEM."""
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)


def channel(
    address: str, files: TlsFiles | None, options: Sequence[tuple[str, Any]]
) -> grpc.aio.Channel:
    """Plaintext without `files`. Raises `ConfigError`."""
    if files is None:
        return grpc.aio.insecure_channel(address, options=options)
    client_context(files)  # says what is wrong; gRPC would not
    assert files.authority is not None
    authority = read_bytes(files.authority)
    pair = files.pair()
    certificate, key = (None, None) if pair is None else map(read_bytes, pair)
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    return grpc.aio.secure_channel(address, credentials, options=options)


class FollowingStub(Generic[S]):
    """A stub whose channel is made again when its files change."""

    def __init__(
        self,
        address: str,
        stub: Callable[[grpc.aio.Channel], S],
        files: TlsFiles | None,
        options: Sequence[tuple[str, Any]],
        log: Log,
    ) -> None:
        """Plaintext without `files`. Raises `ConfigError`."""
        self._address, self._stub, self._files, self._options = address, stub, files, options
        self._channel: grpc.aio.Channel | None = None
        self._retired: set[asyncio.Task[None]] = set()
        paths = () if files is None else files.paths
        self._followed = FollowedFiles(paths, self._make, log)

    def current(self) -> S:
        return self._followed.current()

    def reason(self, failed: grpc.aio.AioRpcError) -> str:
        """Why a call failed, and what to do if that is TLS: gRPC's text alone says it."""
        text = failed.details() or failed.code().name
        return text + (_todo(text, self._files) if "failed to connect" in text else "")

    def _make(self) -> S:
        made = channel(self._address, self._files, self._options)
        if self._channel is not None:
            retired = asyncio.ensure_future(self._channel.close(RETIRED_S))
            self._retired.add(retired)
            retired.add_done_callback(self._retired.discard)
        self._channel = made
        return self._stub(made)

    async def close(self) -> None:
        for retired in self._retired:
            retired.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close(None)


CLOSED: Final = ("Socket closed", "Connection reset by peer", "TSI_DATA_CORRUPTED")


def _todo(text: str, files: TlsFiles | None) -> str:
    """Whoever refuses a certificate closes the connection without a word, or resets it, or says so
    with an alert, which gRPC takes for damage."""
    closed = any(word in text for word in CLOSED)
    if files is None:
        return "; if it speaks TLS, set the authority of its certificate" if closed else ""
    if closed:
        without = ", or speak no TLS" if "handshake" in text.lower() else ""
        return f"; it may want another certificate of this service ({files.setting}_CERT){without}"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"; {files.authority} did not sign its certificate, or it is not valid now"
    if "Hostname Verification" in text or "Peer name" in text:
        return "; its certificate does not name the host that it was asked at"
    return "; it may speak no TLS" if "WRONG_VERSION_NUMBER" in text else ""
