"""What flow control, deadlines and the table of open streams know of one stream.

The stream itself is `Stream`. It stands above them: what it receives and sends goes through them.
"""

import asyncio

from popmq_proxy.front.http2.wire import Error


class StreamState:
    """`Stream` sets all of it: a request costs one constructor, not two."""

    __slots__ = (
        "arrives",
        "born_tick",
        "closed",
        "counted_bytes",
        "ended",
        "id",
        "outgoing",
        "outgoing_at",
        "owed_bytes",
        "receive_window",
        "send_window",
        "streams",
        "task",
        "untaken_bytes",
        "worth",
    )

    id: int
    born_tick: int
    worth: int
    """In frames that begin nothing, when it has been answered."""
    arrives: bool
    """It counts among the requests that are not whole."""
    streams: bool
    """Its messages are served one by one, as they come, and the first one is whole."""
    task: asyncio.Task[None] | None
    ended: bool
    """The client has sent its last byte."""
    closed: bool
    send_window: int
    """What the client has let go beyond the window of each stream, less what was sent."""
    receive_window: int
    owed_bytes: int
    """Taken by the application, and not yet given back to the client's window."""
    untaken_bytes: int
    """Come, and not given back to the client's windows."""
    counted_bytes: int
    """In the request buffer."""
    outgoing: bytes
    """What the client does not let go yet, from `outgoing_at` on."""
    outgoing_at: int

    def wake(self) -> None:
        """Something has come, or the stream has ended."""
        raise NotImplementedError

    def drained(self) -> None:
        """What waited has left."""
        raise NotImplementedError

    def give_up(self, code: Error) -> None:
        """Its client has had its time."""
        raise NotImplementedError
