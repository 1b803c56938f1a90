"""Between the process that supervises Envoy and the application inside it: lines of JSON over a
socket pair.

    application → supervisor    {"ready": true} or {"error": "why it cannot start"}
    supervisor → application    {"drain": true}: no more waiting, the end is near

When the supervisor is gone, killed say, the socket ends, and Envoy with it: it must not go on
holding the port, unseen.
"""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

CONTROL_VARIABLE = "POPMQ_ENVOY_CONTROL_FD"


class ControlLine:
    """The application's end."""

    def __init__(self, environ: "os._Environ[str]" = os.environ) -> None:
        self._socket = socket.socket(fileno=int(environ[CONTROL_VARIABLE]))
        self._socket.setblocking(False)
        self._tasks: set[asyncio.Task[None]] = set()

    async def tell(self, **facts: Any) -> None:
        line = json.dumps(facts).encode() + b"\n"
        await asyncio.get_running_loop().sock_sendall(self._socket, line)

    def listen(self, drain: Callable[[], None]) -> None:
        """Call `drain` when told to; end this process when nobody supervises it any more."""
        self._tasks.add(asyncio.create_task(self._listen(drain)))

    async def _listen(self, drain: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        while await loop.sock_recv(self._socket, 4096):
            drain()
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
