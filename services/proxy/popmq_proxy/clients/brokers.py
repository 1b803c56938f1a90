"""Calls to brokers: over the link, or in the same process."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Protocol

from popmq_common.errors import BrokerDown, BrokerUnreachable, DeadlinePassed, PopMQError
from popmq_common.frames import FrameWriter, encode_frame, read_frame
from popmq_common.wire import error_of
from popmq_internal.v1 import link_pb2 as link

CONNECT_S = 3.0
Handle = Callable[[link.Call], Awaitable[link.Reply]]
Address = Callable[[str], Awaitable[str]]


class Brokers(Protocol):
    async def call(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        """The broker's reply. Raises the broker's error, `BrokerUnreachable` (nothing was sent),
        `BrokerDown` and `DeadlinePassed` (nobody knows what became of the call).

        Cancelling the caller, or the time-out, ends a waiting pop at the broker too.
        """
        ...

    async def close(self) -> None: ...


class LocalBrokers:
    """Brokers of the same process: a call is a function call."""

    def __init__(self, handlers: dict[str, Handle]) -> None:
        self._handlers = handlers

    async def call(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        handle = self._handlers.get(broker)
        if handle is None:
            raise BrokerUnreachable(broker=broker, reason="it does not belong to this server")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await handle(call)
        except TimeoutError:
            raise DeadlinePassed(broker=broker, timeout_ms=timeout_ms) from None

    async def close(self) -> None:
        return


class LinkBrokers:
    """One connection per broker, made on first use and again after it broke."""

    def __init__(self, address: Address, secret: str) -> None:
        """`address` gives a broker's host:port; raises `BrokerDown` for an unknown one."""
        self._address = address
        self._secret = secret
        self._links: dict[str, asyncio.Task[BrokerLink]] = {}

    async def call(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connected = await self._link(broker)
                return await connected.call(call)
        except TimeoutError:
            raise DeadlinePassed(broker=broker, timeout_ms=timeout_ms) from None

    async def _link(self, broker: str) -> "BrokerLink":
        """Shared by all who ask at once; one that failed or broke is made anew."""
        task = self._links.get(broker)
        if task is None or (task.done() and (task.exception() or task.result().broken)):
            task = self._links[broker] = asyncio.create_task(self._connect(broker))
        return await asyncio.shield(task)

    async def _connect(self, broker: str) -> "BrokerLink":
        host, _, port = (await self._address(broker)).rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                writer.write(encode_frame(link.Frame(hello=link.Hello(secret=self._secret))))
                frame = await read_frame(reader)
        except (OSError, TimeoutError) as failed:
            raise BrokerUnreachable(broker=broker, reason=str(failed) or "no answer") from failed
        if frame is None or not frame.HasField("hello"):
            writer.close()
            if frame is not None and frame.replies:
                raise error_of(frame.replies[0].failure)
            raise BrokerUnreachable(broker=broker, reason="it closed the connection")
        if frame.hello.name != broker:
            writer.close()
            reason = f"{frame.hello.name} answers at its address"
            raise BrokerUnreachable(broker=broker, reason=reason)
        return BrokerLink(broker, reader, writer)

    async def close(self) -> None:
        for task in self._links.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                await task.result().close()
            else:
                task.cancel()


class BrokerLink:
    """One connection: calls out, replies in, paired by id."""

    def __init__(
        self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.broken = False
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._out = FrameWriter(writer)
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[link.Reply]] = {}
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    async def call(self, call: link.Call) -> link.Reply:
        if self.broken:
            raise BrokerDown(broker=self._broker, reason="the connection broke")
        call.id = next(self._ids)
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[call.id] = waiter
        try:
            self._out.put(call)
            reply: link.Reply = await waiter
        except asyncio.CancelledError:
            self._cancel(call.id)
            raise
        finally:
            self._waiting.pop(call.id, None)
        if reply.WhichOneof("body") == "failure":
            raise error_of(reply.failure)
        return reply

    def _cancel(self, call_id: int) -> None:
        try:
            self._out.put(link.Call(cancel=link.Cancel(call_id=call_id)))
        except PopMQError:
            return  # the link is jammed; the broker's own time limit ends the call

    async def _write(self) -> None:
        try:
            await self._out.run()
        except ConnectionError as broken:
            self._break(str(broken))

    async def _read(self) -> None:
        reason = "it closed the connection"
        try:
            while (frame := await read_frame(self._reader)) is not None:
                for reply in frame.replies:
                    waiter = self._waiting.get(reply.id)
                    if waiter is not None and not waiter.done():
                        waiter.set_result(reply)
        except PopMQError as broken:
            reason = str(broken)
        self._break(reason)

    def _break(self, reason: str) -> None:
        self.broken = True
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(BrokerDown(broker=self._broker, reason=reason))
        self._tasks[0].cancel()  # the writer; the reader is who tells
        self._writer.close()

    async def close(self) -> None:
        self._break("the proxy is stopping")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
