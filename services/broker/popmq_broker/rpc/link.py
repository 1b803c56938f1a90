"""The broker's end of the link: calls of many proxies, answered as they finish."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable

from popmq_common.errors import NotAuthorized, PopMQError, TooManyRequests
from popmq_common.frames import FrameWriter, encode_frame, read_frame
from popmq_common.logs import Log
from popmq_common.wire import failure_of
from popmq_internal.v1 import link_pb2 as link

CALLS_MAX = 20_000  # under way per connection; a proxy with that many has lost its clients
GRACE_S = 5.0
Handle = Callable[[link.Call], Awaitable[link.Reply]]


class LinkServer:
    def __init__(self, handle: Handle, *, name: str, secret: str, log: Log) -> None:
        self._handle = handle
        self._name = name
        self._secret = secret
        self._log = log
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._connected, host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no more connections, let calls finish for a while, then cut them off."""
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=GRACE_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if await self._greet(reader, writer):
                await Connection(self._handle, reader, writer, self._log).serve()
        except (ConnectionError, PopMQError) as broken:
            self._log.info("link.broken", reason=str(broken))
        except asyncio.CancelledError:
            pass  # stop() ends connections this way; the server must not log it as an error
        finally:
            self._connections.discard(task)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """The first frame shows the secret; ours tells the name, or why not."""
        frame = await read_frame(reader)
        if frame is None or not frame.HasField("hello"):
            return False
        if not hmac.compare_digest(frame.hello.secret.encode(), self._secret.encode()):
            self._log.warning("link.refused", peer=str(writer.get_extra_info("peername")))
            refusal = link.Reply(failure=failure_of(NotAuthorized()))
            writer.write(encode_frame(link.Frame(replies=[refusal])))
            await writer.drain()
            return False
        writer.write(encode_frame(link.Frame(hello=link.Hello(name=self._name))))
        await writer.drain()
        return True


class Connection:
    """One proxy's connection: a task per call under way."""

    def __init__(
        self,
        handle: Handle,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        log: Log,
    ) -> None:
        self._handle = handle
        self._reader = reader
        self._out = FrameWriter(writer)
        self._log = log
        self._calls: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until the proxy is gone; its waiting calls end with it."""
        writing = asyncio.create_task(self._out.run())
        try:
            while (frame := await read_frame(self._reader)) is not None:
                for call in frame.calls:
                    self._accept(call)
        finally:
            writing.cancel()
            for task in self._calls.values():
                task.cancel()
            await asyncio.gather(writing, *self._calls.values(), return_exceptions=True)

    def _accept(self, call: link.Call) -> None:
        if call.WhichOneof("body") == "cancel":
            task = self._calls.get(call.cancel.call_id)
            if task is not None:
                task.cancel()
            return
        if len(self._calls) >= CALLS_MAX:
            refused = TooManyRequests(what="calls of one proxy", limit=CALLS_MAX)
            self._out.put(link.Reply(id=call.id, failure=failure_of(refused)))
            return
        self._calls[call.id] = asyncio.create_task(self._serve(call))

    async def _serve(self, call: link.Call) -> None:
        try:
            reply = await self._handle(call)
        except PopMQError as error:
            reply = link.Reply(id=call.id, failure=failure_of(error))
        except Exception as bug:
            self._log.exception("call.crashed", kind=call.WhichOneof("body"))
            failure = link.Failure(error=type(bug).__name__, fields={"text": str(bug)})
            reply = link.Reply(id=call.id, failure=failure)
        finally:
            del self._calls[call.id]
        self._out.put(reply)
