"""Listening: plaintext and TLS on one port, told apart by the first byte."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Final

from popmq_common.process.fatal import exit_on_error
from popmq_common.process.floods import TICK_S
from popmq_common.process.logs import Log
from popmq_common.process.sockets import Arriving, connections, readable
from popmq_common.tls.handshakes import failure_text
from popmq_proxy.front.client_budgets import ClientBudgets
from popmq_proxy.front.http2.budgets.limits import Http2Limits
from popmq_proxy.front.http2.connection import Http2Connection
from popmq_proxy.front.http2.moving import connection_to_move
from popmq_proxy.front.http2.open_streams import App
from popmq_proxy.front.http2.shared import Address, Shared

TLS_HANDSHAKE: Final = 0x16
BACKLOG: Final = 1_024
SHUTDOWN_S: Final = 1.0
"""How long a client with TLS may take to answer our farewell."""


class _Refused(Exception):
    """A connection that this server does not want."""


class Port:
    """A port of this host. Clients are refused until it listens."""

    def __init__(self, host: str, port: int) -> None:
        """Raises `RuntimeError` when it is taken."""
        self._named = f"{host}:{port}"
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        with self._raising():
            self.socket.bind((host, port))
        self.number: int = self.socket.getsockname()[1]

    def listen(self) -> None:
        """Raises `RuntimeError` when somebody else has begun to listen there."""
        with self._raising():
            self.socket.listen(BACKLOG)

    def close(self) -> None:
        self.socket.close()

    @contextmanager
    def _raising(self) -> Iterator[None]:
        try:
            yield
        except OSError as wrong:
            self.close()
            raise RuntimeError(f"cannot listen on {self._named}: {wrong}") from wrong


class Http2Server:
    def __init__(
        self,
        app: App,
        limits: Http2Limits,
        budgets: ClientBudgets,
        log: Log,
        *,
        connections_max: int,
        tls: ssl.SSLContext | None,
        tls_only: bool = False,
    ) -> None:
        """`budgets` are those of the application. `tls_only`: who comes without is refused."""
        self._app = app
        self._log = log
        self._tls = tls
        self._tls_only = tls_only
        self._shared = Shared(limits, budgets, connections_max)
        self._listeners: list[Port] = []
        self._sources: list[Arriving] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._connections: set[Http2Connection] = set()
        self._none_left = asyncio.Event()

    def bind(self, host: str, port: int) -> int:
        """The port. Raises `RuntimeError` when it is taken."""
        listener = Port(host, port)
        listener.listen()
        self._listeners.append(listener)
        self.take_from(lambda: asyncio.get_running_loop().sock_accept(listener.socket))
        return listener.number

    def take_from(self, source: Arriving) -> None:
        """Connections that come from there are served, too. Before `start`."""
        self._sources.append(source)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def arriving_count(self) -> int:
        """Requests that are not whole."""
        return self._shared.arrivals.budget.taken

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._accept(one)) for one in self._sources]
        self._tasks.append(asyncio.create_task(self._watch()))
        for task in self._tasks:
            task.add_done_callback(partial(exit_on_error, self._log, "front.failed"))

    async def _watch(self) -> None:
        """End requests that do not arrive and answers that nobody reads, for ever."""
        while True:
            await asyncio.sleep(TICK_S)
            self._shared.pass_tick()

    async def _accept(self, source: Arriving) -> None:
        async for accepted, peer in connections(source, self._log):
            address = self._shared.join(peer[0])
            if address is None:
                accepted.close()
                continue
            task = asyncio.create_task(self._open(accepted, address, (peer[0], peer[1])))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, address: Address, peer: tuple[str, int]) -> None:
        """Hand the connection over, decrypted if its first byte says TLS."""
        loop = asyncio.get_running_loop()
        first_frame_s = self._shared.limits.first_frame_s
        made = Http2Connection(self._app, self._shared, address, peer, self._forget)
        self._connections.add(made)
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            first = await self._first_byte(accepted)
            context = self._tls if first == TLS_HANDSHAKE else None
            if first is None or (first == TLS_HANDSHAKE and context is None):
                raise ConnectionAbortedError
            if context is None and self._tls_only:
                raise _Refused("it speaks no TLS, and POPMQ_PROXY_TLS_ONLY is set")
            await loop.connect_accepted_socket(
                lambda: made,
                accepted,
                ssl=context,
                ssl_handshake_timeout=first_frame_s if context else None,
                ssl_shutdown_timeout=SHUTDOWN_S if context else None,
            )
        except BaseException as failed:
            accepted.close()
            self._forget(made)
            if isinstance(failed, ssl.SSLError):
                self._log.warning("tls.refused", client=peer[0], reason=failure_text(failed))
            elif isinstance(failed, _Refused):
                self._log.warning("tls.refused", client=peer[0], reason=str(failed))
            elif not isinstance(failed, OSError | TimeoutError):
                raise

    def _forget(self, connection: Http2Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._shared.leave(connection.peer[0])
        if not self._connections:
            self._none_left.set()

    async def _first_byte(self, accepted: socket.socket) -> int | None:
        """Left where it is. None: the client is gone. Raises `TimeoutError`."""
        async with asyncio.timeout(self._shared.limits.first_frame_s):
            await readable(accepted)
        found = accepted.recv(1, socket.MSG_PEEK)
        return found[0] if found else None

    def move_one(self, share: float) -> tuple[str, int] | None:
        """Part with a connection that has about this share of all work, or less: it takes no new
        calls, and ends with those under way. Returns its peer; None: there is none to part with."""
        now_s = monotonic()
        recent_s = {one: one.recent_s(now_s) for one in self._connections}
        chosen = connection_to_move(recent_s, share)
        if chosen is None:
            return None
        chosen.drain()
        return chosen.peer

    async def stop(self, grace_s: float) -> None:
        """No new connections; RPCs under way may finish within the time."""
        for own in self._tasks:
            own.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for connection in list(self._connections):
            connection.drain()
        if self._connections:
            self._none_left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._none_left.wait()
        for connection in list(self._connections):
            connection.abort()
        self._shared.memory.close()
