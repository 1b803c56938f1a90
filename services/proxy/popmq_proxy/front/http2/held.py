"""Requests that wait to be whole: then they may need no task (front/direct.py).

One that will not be whole soon, or is not the kind, is served by a task from its first byte on.
"""

from typing import Any, Final

from popmq_proxy.front.direct import Direct
from popmq_proxy.front.grpc_wire import PREFIX, PREFIX_BYTES
from popmq_proxy.front.http2.stream import Stream

HELD_MAX: Final = 64
"""Of one connection, before any work begins for them."""


class Held:
    def __init__(self, app: Any, window_bytes: int) -> None:
        """`window_bytes`: how much a client may send of one request before it is read."""
        self._direct: Direct | None = getattr(app, "direct", None)
        self._window_bytes = window_bytes
        self._count = 0

    def take(self, stream: Stream) -> bool:
        """A new request is to wait."""
        if stream.ended or self._count >= HELD_MAX or self._direct is None:
            return False
        if stream.scope["path"] not in self._direct.rpcs:
            return False
        self._count += 1
        return True

    def look(self, stream: Stream) -> None:
        """More of it has come, or its end."""
        if stream.ended:
            self.forget(stream)
            assert self._direct is not None  # or nothing would have been held
            if self._direct.begin(stream.scope, stream.body(), stream):
                stream.release()
            else:
                stream.begin_task()
        elif not self._comes_whole(stream):
            self.forget(stream)
            stream.begin_task()

    def forget(self, stream: Stream) -> None:
        if not stream.begun:
            stream.begun = True
            self._count -= 1

    def _comes_whole(self, stream: Stream) -> bool:
        """What is on its way is a message that the client's window lets go in one piece."""
        first = stream.first()
        if len(first) < PREFIX_BYTES or stream.held_bytes * 2 >= self._window_bytes:
            return False
        compressed, size = PREFIX.unpack_from(first)
        return not compressed and bool(size * 2 <= self._window_bytes)
