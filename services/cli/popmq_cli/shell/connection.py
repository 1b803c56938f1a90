"""What client commands share: where the server is, its secret, --json, and errors in one line."""

import asyncio
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import click
import grpc

from popmq import Client, Tls
from popmq.connection.connection import DENIED
from popmq.connection.endpoints import OPTIONS, Endpoints, wants_certificate
from popmq.errors import AccessDenied, PopMQClientError, ServerUnreachable
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.shell.commands import json_option
from popmq_cli.shell.output import EXIT_UNREACHABLE, error_line, fail, is_json
from popmq_cli.shell.server_options import SERVER_OPTIONS, server_of

START_HINT: Final = "start one with: popmq standalone"
TIMEOUT_S: Final = 10.0
CONNECT_S: Final = 3.0
"""How long one of several servers may take to answer, before the next one is tried."""
EXIT_TERMINATED: Final = 143
EXIT_INTERRUPTED: Final = 130


class PartUnavailable(Exception):
    """A server answered that something behind it does not."""


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """For a command that talks to a server; it gets `endpoint` and `as_json`."""
    for option in reversed([json_option, *SERVER_OPTIONS]):
        command = option(command)
    return command


def endpoints(endpoint: str, context: click.Context | None = None) -> Endpoints:
    """With TLS as the command was told. Raises `click.UsageError`."""
    tls = server_of(context).tls
    try:
        return Endpoints.of(endpoint, tls)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--endpoint") from wrong


def client(endpoint: str) -> Client:
    """For messages."""
    tls = endpoints(endpoint).tls
    return Client(endpoint, tls=tls, credentials=server_of().credentials or False)


def channel(address: str, tls: Tls | None) -> grpc.aio.Channel:
    """Each call shows who asks."""
    shown: Any = [_ShowHeaders()]
    if tls is None:
        return grpc.aio.insecure_channel(address, OPTIONS, interceptors=shown)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    return grpc.aio.secure_channel(address, credentials, OPTIONS, interceptors=shown)


def running(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async command; what goes wrong is told in one line, with an exit code."""

    @functools.wraps(command)
    def run(*args: Any, endpoint: str, **options: Any) -> None:
        tls, as_whom = endpoints(endpoint).tls, _as_whom()  # what cannot be used is told first
        check_text(options)
        try:
            with _sdk_unheard():
                asyncio.run(until_terminated(command(*args, endpoint=endpoint, **options)))
        except asyncio.CancelledError:
            fail("terminated", EXIT_TERMINATED)
        except KeyboardInterrupt:
            fail("interrupted", EXIT_INTERRUPTED)
        except ServerUnreachable as failed:
            text = f"no server answers{as_whom}: {failed}; {_todo(str(failed), tls)}"
            fail(text, EXIT_UNREACHABLE)
        except AccessDenied as denied:
            fail(f"{denied.endpoint or endpoint}{as_whom}: {denied.reason}{_remedy(denied.reason)}")
        except PopMQClientError as refused:
            fail(str(refused))
        except PartUnavailable as answered:
            fail(str(answered))
        except grpc.aio.AioRpcError as failed:
            _tell_failed(endpoint, as_whom, tls, failed)

    return run


def _as_whom() -> str:
    """Whom a server saw, and by which context; empty: neither was said."""
    server = server_of()
    user = f" as user {server.user!r}" if server.user else ""
    return user + (f" (context {server.context})" if server.context else "")


def _remedy(text: str) -> str:
    """What to do when access was denied, unless the server says so itself."""
    if "admin secret" in text:
        return ""
    if server_of().user:
        return "; check the user, its secret key, and what the user may do"
    return "; say who you are: --user NAME --secret-key-file FILE, or --context NAME"


@contextmanager
def _sdk_unheard() -> Iterator[None]:
    """Without a handler Python prints what the SDK warns of; a command tells its error itself."""
    log, nowhere = logging.getLogger("popmq"), logging.NullHandler()
    log.addHandler(nowhere)
    try:
        yield
    finally:
        log.removeHandler(nowhere)


def check_text(options: dict[str, Any]) -> None:
    """Raises `click.UsageError` for bytes that are no text; a body may be any bytes."""
    for name, value in options.items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and name != "body" and not _is_text(text):
                raise click.UsageError(f"{name.replace('_', ' ')} is not UTF-8")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tell_failed(
    endpoint: str, as_whom: str, tls: Tls | None, failed: grpc.aio.AioRpcError
) -> None:
    text = failed.details() or failed.code().name
    if _is_unavailable(failed):
        text = f"no server answers at {endpoint}{as_whom}: {text}; {_todo(text, tls)}"
        fail(text, EXIT_UNREACHABLE)
    if failed.code() is grpc.StatusCode.UNIMPLEMENTED:
        fail(f"the server at {endpoint} does not know this call; it is older, or no PopMQ")
    if failed.code() in DENIED:
        fail(f"{endpoint}{as_whom}: {text}{_remedy(text)}")
    fail(text)


def _todo(text: str, tls: Tls | None) -> str:
    """What to do about a server that gRPC did not reach; its text alone says that it is TLS."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "this machine does not trust its certificate: --tls-ca FILE"
    if "Hostname Verification" in text or "Peer name" in text:
        return "its certificate is for another host: use that host's name in --endpoint"
    if wants_certificate(text, tls):
        return "it may ask for your certificate: --tls-cert FILE --tls-key FILE"
    if "SSL" in text or "handshake" in text.lower():
        return "popmq doctor tells whether it speaks TLS"
    return START_HINT


async def until_terminated(work: Coroutine[Any, Any, None]) -> None:
    """SIGTERM ends it as Ctrl-C does: what it has made for itself is taken away again. A second
    one does not wait for that, and ends the process."""
    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        loop = asyncio.get_running_loop()
        as_json = is_json()

        def cut_short(*_: object) -> None:
            text = "ended by a second signal: what it made for itself is still there"
            os.write(sys.stderr.fileno(), error_line(text, EXIT_TERMINATED, as_json).encode())
            os._exit(EXIT_TERMINATED)

        def terminate() -> None:
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, cut_short)
            task.cancel()

        loop.add_signal_handler(signal.SIGTERM, terminate)
    await work


class _ShowHeaders(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg] # only in stubs
    """Adds the signature, and the admin secret."""

    def __init__(self) -> None:
        self._server = server_of()

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), *self._server.headers())
        return await continuation(details._replace(metadata=metadata), request)


class AdminClient:
    """`async with`: the admin stub of a server."""

    def __init__(self, endpoint: str) -> None:
        self._endpoints = endpoints(endpoint)
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> "admin_grpc.AdminAsyncStub":
        """Of several servers the first one that can be connected to."""
        (*others, last), tls = self._endpoints
        for address in others:
            self._channel = channel(address, tls)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._channel.channel_ready(), CONNECT_S)
                break
            await self._channel.close(None)
        else:
            self._channel = channel(last, tls)
        return admin_grpc.AdminStub(self._channel)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raises `PartUnavailable`: gRPC has one code for that and for no answer."""
        if self._channel is None:
            return
        connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
        await self._channel.close(None)
        if connected and isinstance(error, grpc.aio.AioRpcError) and _is_unavailable(error):
            raise PartUnavailable(error.details()) from error


def _is_unavailable(failed: grpc.aio.AioRpcError) -> bool:
    return failed.code() is grpc.StatusCode.UNAVAILABLE
