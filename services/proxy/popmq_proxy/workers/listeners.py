"""The ports for clients of a server of several processes; connections go to its workers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from popmq_common.process.logs import Log
from popmq_common.process.sockets import connections
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.http2.server import Port

Hand = Callable[[socket.socket], Awaitable[None]]
"""Gives a connection to a worker."""


class Listeners:
    """Until the workers serve clients are refused: one that is let in waits, and takes a server
    that starts for one that does not answer."""

    def __init__(self, config: ProxyConfig, log: Log) -> None:
        """Raises `RuntimeError` when a port is taken."""
        self._log = log
        self._ports = [Port(config.host, config.port)]
        self.port = self.tls_port = self._ports[0].number
        if config.tls_port not in (0, self.port):
            self._ports.append(Port(config.host, config.tls_port))
            self.tls_port = self._ports[1].number

    def listen(self) -> None:
        """Raises `RuntimeError` when somebody else has begun to listen there."""
        for one in self._ports:
            one.listen()

    async def run(self, hand: Hand) -> None:
        """For ever."""
        await asyncio.gather(*(self._accept(one.socket, hand) for one in self._ports))

    async def _accept(self, one: socket.socket, hand: Hand) -> None:
        loop = asyncio.get_running_loop()
        async for accepted, _ in connections(lambda: loop.sock_accept(one), self._log):
            with accepted:
                await hand(accepted)

    def close(self) -> None:
        for one in self._ports:
            one.close()
