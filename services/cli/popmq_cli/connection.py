"""What client commands share: --endpoint, --secret-file, --json, and errors as one line."""

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import grpc

from popmq.errors import PopMQClientError, ServerUnreachable
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.output import EXIT_UNREACHABLE, fail

START_HINT = "start one with: popmq standalone"
TIMEOUT_S = 10.0
EXIT_TERMINATED = 143
SECRET_FILE_VARIABLE = "POPMQ_ADMIN_SECRET_FILE"
_SECRET = "popmq_cli.admin_secret"
ANSWER_BYTES_MAX = 64 << 20  # a page of dead letters may be large


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--endpoint, --secret-file and --json for a command that talks to a server."""
    command = click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, for other programs."
    )(command)
    command = click.option(
        "--secret-file",
        envvar=SECRET_FILE_VARIABLE,
        type=click.Path(path_type=Path, dir_okay=False),
        expose_value=False,
        callback=_read_secret,
        help="File with the server's admin secret, where changes need one.",
    )(command)
    return click.option(
        "--endpoint",
        envvar="POPMQ_ENDPOINT",
        default="127.0.0.1:8081",
        show_default=True,
        metavar="HOST:PORT",
        help="Where the server is.",
    )(command)


def _read_secret(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Kept for the AdminClient of this command."""
    if path is None:
        return
    try:
        context.meta[_SECRET] = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise click.BadParameter(f"{path} cannot be read: {wrong}") from wrong


def running(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async command; what goes wrong is told in one line, with an exit code."""

    @functools.wraps(command)
    def run(*args: Any, endpoint: str, **options: Any) -> None:
        try:
            asyncio.run(until_terminated(command(*args, endpoint=endpoint, **options)))
        except asyncio.CancelledError:
            fail("terminated", EXIT_TERMINATED)
        except ServerUnreachable as failed:
            fail(f"no server answers: {failed}; {START_HINT}", EXIT_UNREACHABLE)
        except PopMQClientError as refused:
            fail(str(refused))
        except grpc.aio.AioRpcError as failed:
            if failed.code() is grpc.StatusCode.UNAVAILABLE:
                text = f"no server answers at {endpoint}: {failed.details()}; {START_HINT}"
                fail(text, EXIT_UNREACHABLE)
            if failed.code() is grpc.StatusCode.UNIMPLEMENTED:
                fail(f"the server at {endpoint} does not know this call; it is older, or no PopMQ")
            fail(failed.details() or failed.code().name)
        except KeyboardInterrupt:
            fail("interrupted", 130)

    return run


async def until_terminated(work: Coroutine[Any, Any, None]) -> None:
    """SIGTERM ends it as Ctrl-C does: what it has made for itself is taken away again."""
    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
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
        options = [("grpc.max_receive_message_length", ANSWER_BYTES_MAX)]
        context = click.get_current_context(silent=True)
        secret = None if context is None else context.meta.get(_SECRET)
        shown: Any = [] if secret is None else [_ShowSecret(secret)]
        self._channel = grpc.aio.insecure_channel(endpoint, options, interceptors=shown)

    async def __aenter__(self) -> "admin_grpc.AdminAsyncStub":
        return admin_grpc.AdminStub(self._channel)

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close(None)
