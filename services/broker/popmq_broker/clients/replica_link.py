"""A follower's connection to its primary: calls out, replies in, paired by id."""

import asyncio
import ssl
from itertools import count

from popmq_common.errors import BrokerDown, BrokerUnreachable, DeadlinePassed
from popmq_common.link.frames import FrameConnection
from popmq_common.link.greeting import greet
from popmq_common.link.wire import error_of
from popmq_internal.v1 import link_pb2 as link

CONNECT_S = 2.0


class ReplicaLink:
    def __init__(self, broker: str, frames: FrameConnection) -> None:
        """The greeting is over."""
        self._broker = broker
        self._frames = frames
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[link.Reply]] = {}
        frames.begin(self._receive)
        frames.ended.add_done_callback(self._ended)

    async def call(self, call: link.Call, timeout_s: float) -> link.Reply:
        """Sets `call.id`. Raises the primary's error, `BrokerDown`, `DeadlinePassed`."""
        if self._frames.ended.done():
            raise BrokerDown(broker=self._broker, reason="the connection broke")
        call.id = next(self._ids)
        waiter = self._waiting[call.id] = asyncio.get_running_loop().create_future()
        self._frames.put(call)
        try:
            async with asyncio.timeout(timeout_s):
                reply: link.Reply = await waiter
        except TimeoutError:
            timeout_ms = int(timeout_s * 1000)
            raise DeadlinePassed(broker=self._broker, timeout_ms=timeout_ms) from None
        finally:
            del self._waiting[call.id]
        if reply.HasField("failure"):
            raise error_of(reply.failure)
        return reply

    def _receive(self, frame: link.Frame) -> None:
        for reply in frame.replies:
            waiter = self._waiting.get(reply.id)
            if waiter is not None and not waiter.done():
                waiter.set_result(reply)

    def _ended(self, ended: "asyncio.Future[None]") -> None:
        wrong = ended.exception()
        reason = "it closed the connection" if wrong is None else str(wrong)
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(BrokerDown(broker=self._broker, reason=reason))

    def close(self) -> None:
        self._frames.abort()


async def connect(
    broker: str, address: str, secret: bytes, tls: ssl.SSLContext | None
) -> ReplicaLink:
    """Raises `BrokerUnreachable`, and what the primary refuses with."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            _, frames = await loop.create_connection(
                FrameConnection,
                host.strip("[]"),
                int(port),
                ssl=tls,
                server_hostname=host.strip("[]") if tls else None,
            )
            try:
                await greet(frames, broker, secret, "POPMQ_BROKER_REPLICA_TLS")
            except BaseException:
                frames.abort()
                raise
    except (OSError, TimeoutError, ValueError) as wrong:
        reason = f"{address}: {str(wrong) or 'no answer'}"
        raise BrokerUnreachable(broker=broker, reason=reason) from wrong
    return ReplicaLink(broker, frames)
