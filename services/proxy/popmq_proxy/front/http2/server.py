"""Listening: plaintext and TLS on one port, told apart by the first byte."""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final

from popmq_common.logs import Log
from popmq_proxy.front.http2.connection import App, Connection, Limits

TLS_HANDSHAKE: Final = 0x16
BACKLOG: Final = 1_024
ACCEPT_PAUSE_S: Final = 0.1
"""After an accept that failed: no descriptors are left, perhaps."""


class Http2Server:
    def __init__(
        self,
        app: App,
        limits: Limits,
        log: Log,
        *,
        connections_max: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._app = app
        self._limits = limits
        self._log = log
        self._connections_max = connections_max
        self._tls = tls
        self._listeners: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._none_left = asyncio.Event()

    def bind(self, host: str, port: int) -> int:
        """The port. Raises `RuntimeError` when it is taken."""
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as wrong:
            raise RuntimeError(f"cannot listen on {host}:{port}: {wrong}") from wrong
        listener.setblocking(False)
        self._listeners.append(listener)
        found: int = listener.getsockname()[1]
        return found

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def start(self) -> None:
        self._accepting = [asyncio.create_task(self._accept(one)) for one in self._listeners]

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as failed:
                self._log.warning("accept.failed", reason=str(failed))
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if len(self._connections) + len(self._opening) >= self._connections_max:
                accepted.close()
                continue
            task = asyncio.create_task(self._open(accepted, (address[0], address[1])))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        """Hand the connection over, decrypted if its first byte says TLS."""
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            first = await self._first_byte(loop, accepted)
            context = self._tls if first == TLS_HANDSHAKE else None
            if first is None or (first == TLS_HANDSHAKE and context is None):
                accepted.close()
                return
            made = Connection(self._app, self._limits, peer, self._forget)
            self._connections.add(made)
            try:
                await loop.connect_accepted_socket(lambda: made, accepted, ssl=context)
            except BaseException:
                self._forget(made)
                raise
        except (OSError, ssl.SSLError, TimeoutError):
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()

    async def _first_byte(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket
    ) -> int | None:
        """Left where it is. None: the client is gone. Raises `TimeoutError`."""
        ready: asyncio.Future[None] = loop.create_future()

        def can_read() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(accepted, can_read)
        try:
            async with asyncio.timeout(self._limits.first_frame_s):
                await ready
        finally:
            loop.remove_reader(accepted)
        found = accepted.recv(1, socket.MSG_PEEK)
        return found[0] if found else None

    async def stop(self, grace_s: float) -> None:
        """No new connections; RPCs under way may finish within the time."""
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        for task in list(self._opening):
            task.cancel()
        for connection in list(self._connections):
            connection.drain()
        if self._connections:
            self._none_left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._none_left.wait()
        for connection in list(self._connections):
            connection.transport.abort()
