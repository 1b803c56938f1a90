"""The console put together, and served until its context is left."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from popmq_common.process.clock import Clock
from popmq_console import live_route
from popmq_console.config import ConsoleConfig
from popmq_console.guard.http_guard import HttpGuard
from popmq_console.guard.sessions import SessionTable
from popmq_console.reading.calls import ClusterCalls
from popmq_console.routes import ROUTES
from popmq_console.screening import screened
from popmq_console.static_files import StaticFiles
from popmq_console.template_environment import environment
from popmq_console.visit import Console

KEY_BYTES: Final = 32
BACKLOG: Final = 128
CONNECTIONS_MAX: Final = 500
STOP_S: Final = 2


@dataclass(frozen=True, slots=True)
class Serving:
    port: int
    url: str


def made_console(config: ConsoleConfig, clock: Clock) -> Console:
    """Raises `ValueError` for an endpoint that is none. Its calls are to be closed."""
    return Console(
        config=config,
        calls=ClusterCalls(config.endpoint, config.tls, config.admin_secret),
        templates=environment(),
        key=secrets.token_bytes(KEY_BYTES),
        sessions=SessionTable(config.session_ms, config.idle_ms),
        started_ms=clock.now_ms(),
    )


def application(console: Console, clock: Clock) -> ASGIApp:
    prefix = console.config.path_prefix
    routes: list[BaseRoute] = [
        StarletteRoute(f"{prefix}{one.path}", screened(console, clock, one), methods=[one.method])
        for one in ROUTES
    ]
    routes += [
        StarletteRoute(
            f"{prefix}{live_route.PREFIX}{one.path}",
            live_route.streamed(console, clock, console.live, one),
            methods=["GET"],
        )
        for one in ROUTES
        if one.live_s
    ]
    routes.append(Mount(f"{prefix}/static", StaticFiles()))
    routes.append(StarletteRoute(f"{prefix}/healthz", _healthy))
    if prefix:
        routes.append(StarletteRoute(prefix, lambda request: RedirectResponse(f"{prefix}/", 307)))
    app = Starlette(routes=routes, exception_handlers={404: _no_page})
    app.router.redirect_slashes = False
    return HttpGuard(app, frozenset(name.lower() for name in console.config.allowed_hosts))


async def _healthy(request: Request) -> Response:
    """The console itself serves; whether the cluster is well, its pages tell."""
    return PlainTextResponse("ok\n")


async def _no_page(request: Request, wrong: Exception) -> Response:
    return PlainTextResponse("There is no such page. The console begins at /.\n", 404)


class ConsoleServer(uvicorn.Server):
    """Inside a process that has its own signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def console(config: ConsoleConfig, clock: Clock) -> AsyncIterator[Serving]:
    """Serve until the context is left. Raises `OSError` when the port is taken, `ValueError`."""
    listening = _listening(config.host, config.port)
    made = made_console(config, clock)
    server = ConsoleServer(
        uvicorn.Config(
            application(made, clock),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=STOP_S,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="console")
    try:
        port = listening.getsockname()[1]
        shown = f"[{config.host}]" if ":" in config.host else config.host
        yield Serving(port, f"http://{shown}:{port}{config.path_prefix}/")
    finally:
        await made.live.close()
        server.should_exit = True
        await serving
        await made.calls.close()


def _listening(host: str, port: int) -> socket.socket:
    """Raises `OSError`."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found
