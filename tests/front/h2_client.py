"""HTTP/2 and gRPC frame by frame: a client that can do what no gRPC library lets one do."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from front.stream import Stream
from front.wire import Headers, headers
from h2 import events
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

FRAME_BYTES = 16_384  # SETTINGS_MAX_FRAME_SIZE unless a peer allows more


class LastingConnection(H2Connection):
    """After a GOAWAY the streams under way go on, which h2 would refuse."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[events.Event]]:
        received = super()._receive_goaway_frame(frame)
        self.state_machine.state = ConnectionState.CLIENT_OPEN
        return received


class Connection:
    """One HTTP/2 connection. Settings and pings of the server are answered; windows are refilled
    as data comes, unless `window_bytes` is 0: then the server can send headers, but no data."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, window_bytes: int
    ) -> None:
        config = H2Configuration(header_encoding="utf-8", validate_outbound_headers=False)
        self.h2 = LastingConnection(config)
        self.h2.local_settings = Settings(
            initial_values={SettingCodes.INITIAL_WINDOW_SIZE: window_bytes}
        )
        self.streams: dict[int, Stream] = {}
        self.goaway_code: int | None = None
        self.pongs = 0
        self.settings_acks = 0
        self.closed = asyncio.Event()
        self.ready = asyncio.Event()
        self.arrived = asyncio.Event()
        self._reader, self._writer = reader, writer
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.h2.initiate_connection()
        self._reading = asyncio.create_task(self._read())
        await self.flush()
        async with asyncio.timeout(5):
            await self.ready.wait()

    async def open(self, path: str | Headers, *, end: bool = False) -> Stream:
        """Send HEADERS; a path stands for the headers of a gRPC request to it."""
        stream = self.queue_open(path, end=end)
        await self.flush()
        return stream

    def queue_open(self, path: str | Headers, *, end: bool = False) -> Stream:
        """As `open`; the frames leave with the next flush."""
        stream = Stream(self.h2.get_next_available_stream_id())
        lines = headers(path) if isinstance(path, str) else path
        self.h2.send_headers(stream.stream_id, lines, end_stream=end)
        self.streams[stream.stream_id] = stream
        return stream

    async def send(
        self, stream: Stream, data: bytes, *, chunk_bytes: int = FRAME_BYTES, end: bool = False
    ) -> None:
        """Send DATA frames of `chunk_bytes` at most, each in a write of its own, as far as windows
        allow. Stops without an error when the server has ended the stream."""
        at = 0
        while at < len(data) and not stream.ended.is_set():
            self.arrived.clear()
            room = self.h2.local_flow_control_window(stream.stream_id)
            size = min(chunk_bytes, room, len(data) - at)
            if size <= 0:
                await self.arrived.wait()
                continue
            last = end and at + size == len(data)
            self.h2.send_data(stream.stream_id, data[at : at + size], end_stream=last)
            at += size
            await self.flush()
            await asyncio.sleep(0)  # a flush need not wait, and then no other client had a turn
        if end and not data and not stream.ended.is_set():
            self.h2.end_stream(stream.stream_id)
            await self.flush()

    async def call(
        self, path: str | Headers, data: bytes, *, timeout_s: float = 5.0, end: bool = True
    ) -> Stream:
        """Send a request and wait for the end of the answer. Raises `TimeoutError`."""
        stream = await self.open(path)
        async with asyncio.timeout(timeout_s):
            await self.send(stream, data, end=end)
        return await stream.end(timeout_s)

    async def reset(self, *streams: Stream) -> None:
        """RST_STREAM with CANCEL, for each stream that is still open."""
        for stream in streams:
            if not stream.ended.is_set():
                self.h2.reset_stream(stream.stream_id, error_code=8)
                stream.finish()
        await self.flush()

    async def ping(self, count: int = 1) -> None:
        for i in range(count):
            self.h2.ping(i.to_bytes(8, "big"))
        await self.flush()

    async def settings(self, values: dict[SettingCodes | int, int]) -> None:
        self.h2.update_settings(values)
        await self.flush()

    async def until(self, done: Callable[["Connection"], bool], timeout_s: float = 5.0) -> None:
        """Wait until it holds or the connection is closed. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            while not done(self) and not self.closed.is_set():
                self.arrived.clear()
                await self.arrived.wait()

    def ignore_stream_limit(self) -> None:
        """Open more streams than the server allows."""
        self.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1 << 31
        self.h2.remote_settings.acknowledge()

    async def flush(self) -> None:
        """Write what is queued; a connection that is gone swallows it."""
        data = self.h2.data_to_send()
        if not data or self._writer.is_closing():
            return
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            self.closed.set()

    async def vanish(self) -> None:
        """The connection is gone with a TCP reset, without a word of HTTP/2."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        await self.close()

    async def close(self) -> None:
        """Close the socket, without GOAWAY."""
        self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 18):
                for event in self.h2.receive_data(data):
                    self._take(event)
                self.arrived.set()
                await self.flush()
        except (OSError, ProtocolError):
            pass  # told by `closed` and by the streams
        finally:
            self.closed.set()
            self.arrived.set()
            for stream in self.streams.values():
                stream.lost = stream.lost or not stream.ended.is_set()
                stream.finish()

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.RemoteSettingsChanged):
            self.ready.set()
        elif isinstance(event, events.SettingsAcknowledged):
            self.settings_acks += 1
        elif isinstance(event, events.PingAckReceived):
            self.pongs += 1
        elif isinstance(event, events.ConnectionTerminated):
            self.goaway_code = int(event.error_code or 0)
        else:
            self._take_of_stream(event)

    def _take_of_stream(self, event: events.Event) -> None:
        stream = self.streams.get(getattr(event, "stream_id", 0))
        if stream is None:
            return
        if isinstance(event, events.ResponseReceived):
            stream.headers = _lines(event.headers)
            stream.begun.set()
        elif isinstance(event, events.DataReceived):
            stream.data += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, stream.stream_id)
            stream.arrived.set()
        elif isinstance(event, events.TrailersReceived):
            stream.trailers = _lines(event.headers)
        elif isinstance(event, events.StreamEnded | events.StreamReset):
            if isinstance(event, events.StreamReset):
                stream.reset_code = int(event.error_code)
            stream.finish()


def _lines(sent: Sequence[tuple[bytes | str, bytes | str]]) -> dict[str, str]:
    return {str(name): str(value) for name, value in sent}


@asynccontextmanager
async def connect(endpoint: str, *, window_bytes: int = 65_535) -> AsyncIterator[Connection]:
    """Preface and SETTINGS are exchanged when this enters."""
    host, _, port = endpoint.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = Connection(reader, writer, window_bytes)
    try:
        await connection.start()
        yield connection
    finally:
        await connection.close()
