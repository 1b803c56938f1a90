"""One gRPC call as its client sees it: what came, and how it ended."""

import asyncio
from dataclasses import dataclass, field

from front.wire import frames


@dataclass(eq=False)
class Stream:
    """What came on one stream. `ended` is set by END_STREAM, a reset, or the connection's end."""

    stream_id: int
    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    trailers: dict[str, str] = field(default_factory=dict)
    reset_code: int | None = None
    lost: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def http_status(self) -> int:
        return int(self.headers.get(":status", "0"))

    @property
    def grpc_status(self) -> int | None:
        text = self.trailers.get("grpc-status", self.headers.get("grpc-status"))
        return None if text is None else int(text)

    @property
    def messages(self) -> list[bytes]:
        return frames(self.data)

    async def end(self, timeout_s: float = 5.0) -> "Stream":
        """Wait for the stream's end. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            await self.ended.wait()
        return self

    async def message(self, count: int, timeout_s: float = 5.0) -> list[bytes]:
        """Wait until `count` messages came, or the end. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            while len(self.messages) < count and not self.ended.is_set():
                self.arrived.clear()
                await self.arrived.wait()
        return self.messages

    def finish(self) -> None:
        for event in (self.begun, self.ended, self.arrived):
            event.set()
