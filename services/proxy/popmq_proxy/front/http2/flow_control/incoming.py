"""HTTP/2 flow control of what a client sends: the windows of each stream and of the connection,
given back as the application takes what came."""

from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.flow_control.outgoing import Outgoing
from popmq_proxy.front.http2.stream_state import StreamState
from popmq_proxy.front.http2.wire import ConnectionBroken, Error


class Incoming:
    def __init__(self, outgoing: Outgoing, connection_bytes: int, stream_bytes: int) -> None:
        self._outgoing = outgoing
        self._connection_bytes = connection_bytes
        self._stream_bytes = stream_bytes
        self._window = connection_bytes
        self._owed_bytes = 0

    def came(self, size: int) -> None:
        """Raises `ConnectionBroken` when it is more than was allowed."""
        self._window -= size
        if self._window < 0:
            raise ConnectionBroken(Error.FLOW_CONTROL_ERROR, "more than the connection's window")

    def came_on(self, stream: StreamState, size: int) -> None:
        stream.receive_window -= size
        if stream.receive_window < 0:
            text = f"more than the window of stream {stream.id}"
            raise ConnectionBroken(Error.FLOW_CONTROL_ERROR, text)

    def consumed(self, stream: StreamState, size: int) -> None:
        """The application has taken so many bytes of a request, or they were padding."""
        self.give_back(size)
        if stream.ended:
            return
        stream.owed_bytes += size
        if stream.owed_bytes * 2 >= self._stream_bytes:
            self._outgoing.put(wire.window_update(stream.id, stream.owed_bytes))
            stream.receive_window += stream.owed_bytes
            stream.owed_bytes = 0

    def give_back(self, size: int) -> None:
        self._owed_bytes += size
        if self._owed_bytes * 2 >= self._connection_bytes:
            self._outgoing.put(wire.window_update(0, self._owed_bytes))
            self._window += self._owed_bytes
            self._owed_bytes = 0
