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
from pathlib import Path
from typing import Any, Final

import click
import grpc

from popmq import Client, Tls
from popmq.app.launch import ENDPOINT_HELP, ENDPOINT_VARIABLE, TLS_CA_HELP, TLS_CA_VARIABLE
from popmq.connection.endpoints import OPTIONS, Endpoints
from popmq.errors import PopMQClientError, ServerUnreachable
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.shell.commands import ServerOption, json_option
from popmq_cli.shell.output import EXIT_UNREACHABLE, error_line, fail, is_json

START_HINT: Final = "start one with: popmq standalone"
TIMEOUT_S: Final = 10.0
CONNECT_S: Final = 3.0
"""How long one of several servers may take to answer, before the next one is tried."""
EXIT_TERMINATED: Final = 143
EXIT_INTERRUPTED: Final = 130
ENDPOINT_DEFAULT: Final = "127.0.0.1:8081"
SECRET_FILE_VARIABLE: Final = "POPMQ_ADMIN_SECRET_FILE"
_SECRET: Final = "popmq_cli.admin_secret"
_TLS: Final = "popmq_cli.tls"


class PartUnavailable(Exception):
    """A server answered that something behind it does not."""


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """For a command that talks to a server; it gets `endpoint` and `as_json`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def endpoints(endpoint: str, context: click.Context | None = None) -> Endpoints:
    """As --tls and --tls-ca of the command say. Raises `click.BadParameter`."""
    context = context or click.get_current_context(silent=True)
    tls = None if context is None else context.meta.get(_TLS)
    try:
        return Endpoints.of(endpoint, tls)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--endpoint") from wrong


def client(endpoint: str) -> Client:
    """For messages."""
    return Client(endpoint, tls=endpoints(endpoint).tls)


def channel(address: str, tls: Tls | None, interceptors: Any = None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(address, OPTIONS, interceptors=interceptors)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    return grpc.aio.secure_channel(address, credentials, OPTIONS, interceptors=interceptors)


def _read_secret(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Kept for the AdminClient of this command."""
    if path is None:
        return
    try:
        context.meta[_SECRET] = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise click.BadParameter(f"{path} cannot be read: {wrong}") from wrong


def _with_tls(context: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        context.meta.setdefault(_TLS, Tls())


def _read_ca(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    try:
        context.meta[_TLS] = Tls.from_files(ca=path)
    except OSError as wrong:
        raise click.BadParameter(f"{path} cannot be read: {wrong}") from wrong


_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_OPTIONS: Final = [
    json_option,
    click.option(
        "--endpoint",
        cls=ServerOption,
        envvar=ENDPOINT_VARIABLE,
        show_envvar=True,
        default=ENDPOINT_DEFAULT,
        show_default=True,
        metavar="HOST:PORT",
        help=ENDPOINT_HELP,
    ),
    click.option(
        "--tls",
        cls=ServerOption,
        is_flag=True,
        expose_value=False,
        callback=_with_tls,
        help="Connect with TLS.",
    ),
    click.option(
        "--tls-ca",
        cls=ServerOption,
        envvar=TLS_CA_VARIABLE,
        show_envvar=True,
        type=_FILE,
        expose_value=False,
        callback=_read_ca,
        help=TLS_CA_HELP,
    ),
    click.option(
        "--secret-file",
        cls=ServerOption,
        envvar=SECRET_FILE_VARIABLE,
        show_envvar=True,
        type=_FILE,
        expose_value=False,
        callback=_read_secret,
        help="File with the admin secret, if the server asks for one.",
    ),
]


def running(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async command; what goes wrong is told in one line, with an exit code."""

    @functools.wraps(command)
    def run(*args: Any, endpoint: str, **options: Any) -> None:
        endpoints(endpoint)  # what is none is told before anything else
        check_text(options)
        try:
            with _sdk_unheard():
                asyncio.run(until_terminated(command(*args, endpoint=endpoint, **options)))
        except asyncio.CancelledError:
            fail("terminated", EXIT_TERMINATED)
        except KeyboardInterrupt:
            fail("interrupted", EXIT_INTERRUPTED)
        except ServerUnreachable as failed:
            fail(f"no server answers: {failed}; {_todo(str(failed))}", EXIT_UNREACHABLE)
        except PopMQClientError as refused:
            fail(str(refused))
        except PartUnavailable as answered:
            fail(str(answered))
        except grpc.aio.AioRpcError as failed:
            _tell_failed(endpoint, failed)

    return run


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


def _tell_failed(endpoint: str, failed: grpc.aio.AioRpcError) -> None:
    text = failed.details() or failed.code().name
    if _is_unavailable(failed):
        fail(f"no server answers at {endpoint}: {text}; {_todo(text)}", EXIT_UNREACHABLE)
    if failed.code() is grpc.StatusCode.UNIMPLEMENTED:
        fail(f"the server at {endpoint} does not know this call; it is older, or no PopMQ")
    fail(text)


def _todo(text: str) -> str:
    """What to do about a server that gRPC did not reach; its text alone says that it is TLS."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "this machine does not trust its certificate: --tls-ca FILE"
    if "Hostname Verification" in text or "Peer name" in text:
        return "its certificate is for another host: use that host's name in --endpoint"
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


class _ShowSecret(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg] # only in stubs
    def __init__(self, secret: str) -> None:
        self._metadata = ("x-popmq-admin-secret", secret)

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), self._metadata)
        return await continuation(details._replace(metadata=metadata), request)


class AdminClient:
    """`async with`: the admin stub of a server; it shows the command's --secret-file."""

    def __init__(self, endpoint: str) -> None:
        self._endpoints = endpoints(endpoint)
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> "admin_grpc.AdminAsyncStub":
        """Of several servers the first one that can be connected to."""
        context = click.get_current_context(silent=True)
        secret = None if context is None else context.meta.get(_SECRET)
        shown: Any = [] if secret is None else [_ShowSecret(secret)]
        (*others, last), tls = self._endpoints
        for address in others:
            self._channel = channel(address, tls, shown)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._channel.channel_ready(), CONNECT_S)
                break
            await self._channel.close(None)
        else:
            self._channel = channel(last, tls, shown)
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
