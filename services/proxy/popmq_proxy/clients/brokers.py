"""Calls to brokers: what every handler may ask, and how it goes over the link."""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from popmq_common.errors import BrokerUnreachable, PopMQError
from popmq_common.link import link_socket
from popmq_common.link.frames import FrameConnection
from popmq_common.link.greeting import greet
from popmq_common.link.sends import SendCall
from popmq_common.process import logs
from popmq_common.tls.handshakes import failure_text
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import BrokerLink, OnReply
from popmq_proxy.core.routing.gathering import Gathering

CONNECT_S = 3.0
BACKOFF_S = 0.1  # after the first failure to connect, doubled by each further one
BACKOFF_S_MAX = 0.5
FAILURES_MAX = 1_000  # remembered; broker names also come from clients, in receipt handles
Replying = Coroutine[Any, Any, link.Reply]
"""To be awaited, once."""
Address = Callable[[str], Awaitable[str]]


class Brokers(Protocol):
    def call(self, broker: str, call: link.Call | SendCall, timeout_ms: int) -> Replying:
        """The broker's reply. Raises the broker's error, `BrokerUnreachable` (nothing was sent),
        `BrokerDown` and `DeadlinePassed` (nobody knows what became of the call), and
        `TooManyRequests` when the broker does not keep up.

        Cancelling the caller, or the time-out, ends a waiting pop at the broker too.
        """
        ...

    def send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> bool:
        """The same for a send, without a coroutine: `on_reply` gets the reply or the error, later.

        False: there is no connection yet and nothing was done, `call` makes one. Raises what
        keeps the call from being sent.
        """
        ...

    def answers(self, broker: str) -> bool:
        """False: the last that was heard of it is that it is away, or it is silent. What another
        broker can do is better given to another one."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ConnectFailure:
    """Why a broker could not be reached, and until when nobody tries again."""

    error: PopMQError
    backoff_s: float
    retry_at_s: float


class LinkBrokers:
    """One connection per broker, made on first use and again after it broke.

    After a failure to connect, calls fail at once for a moment instead of queueing up behind
    one hopeless attempt after the other.
    """

    def __init__(
        self,
        address: Address,
        secret: bytes,
        tls: ssl.SSLContext | None = None,
        *,
        gathering: Gathering | None = None,
    ) -> None:
        """`address` gives a broker's host:port; raises `BrokerUnreachable` for an unknown one.
        `secret`: what both ends prove that they know; empty: nothing. `gathering`: of all
        sends."""
        self._address = address
        self._secret = secret
        self._tls = tls
        self._gathering = gathering or Gathering()
        self._log = logs.get("proxy")
        self._closed = False
        self._links: dict[str, BrokerLink] = {}
        self._retired: set[BrokerLink] = set()
        """To where brokers were before; calls are under way there."""
        self._connecting: dict[str, asyncio.Task[BrokerLink]] = {}
        self._failures: OrderedDict[str, ConnectFailure] = OrderedDict()

    def call(self, broker: str, call: link.Call | SendCall, timeout_ms: int) -> Replying:
        connected = self._links.get(broker)
        if connected is not None and not connected.broken:
            return connected.call(call, timeout_ms)
        return self._first_call(broker, call, timeout_ms)

    def send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> bool:
        connected = self._links.get(broker)
        if connected is None or connected.broken:
            return False
        connected.send(call, timeout_ms, on_reply)
        return True

    def answers(self, broker: str) -> bool:
        connected = self._links.get(broker)
        if connected is not None and not connected.broken:
            return not connected.silent
        if connected is None and broker not in self._failures:
            return True  # nobody has tried yet
        if broker not in self._connecting and self._may_try(broker):
            self._begin_connecting(broker)  # else nobody might: all go elsewhere
        return False

    def up(self, brokers: Iterable[str]) -> dict[str, bool]:
        """Which of `brokers` are connected; those that nobody has called yet are left out."""
        found = {}
        for name in brokers:
            connected = self._links.get(name)
            if connected is not None:
                found[name] = not connected.broken
            elif name in self._failures:
                found[name] = False
        return found

    def silent(self) -> dict[str, bool]:
        """Which of the connected brokers do not answer."""
        return {name: found.silent for name, found in self._links.items() if not found.broken}

    def calls(self) -> dict[str, int]:
        """How many are under way, by broker."""
        return {name: found.call_count for name, found in self._links.items()}

    async def _first_call(
        self, broker: str, call: link.Call | SendCall, timeout_ms: int
    ) -> link.Reply:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline_s):
                connected = await self._connected(broker)
        except TimeoutError:
            reason = f"no connection within {timeout_ms} ms"
            raise BrokerUnreachable(broker=broker, reason=reason) from None
        return await connected.call(call, max(1, ceil((deadline_s - loop.time()) * 1000)))

    async def _connected(self, broker: str) -> BrokerLink:
        """The attempt that all share who ask at once."""
        task = self._connecting.get(broker)
        if task is None:
            if self._closed:
                raise BrokerUnreachable(broker=broker, reason="the proxy is stopping")
            if not self._may_try(broker):
                error = self._failures[broker].error
                raise type(error)(**error.fields)
            task = self._begin_connecting(broker)
        return await asyncio.shield(task)

    def _may_try(self, broker: str) -> bool:
        failure = self._failures.get(broker)
        now_s = asyncio.get_running_loop().time()
        return not self._closed and (failure is None or now_s >= failure.retry_at_s)

    def _begin_connecting(self, broker: str) -> "asyncio.Task[BrokerLink]":
        task = self._connecting[broker] = asyncio.create_task(self._connect(broker))
        task.add_done_callback(_retrieve)
        return task

    async def _connect(self, broker: str) -> BrokerLink:
        try:
            made = await self._open(broker, await self._address(broker))
        except PopMQError as error:
            self._links.pop(broker, None)
            self._note(broker, error)
            raise
        finally:
            del self._connecting[broker]
        self._failures.pop(broker, None)
        self._links[broker] = made
        return made

    def moved(self, broker: str, address: str) -> None:
        """It is at another address now: what answers at the former one is no longer it, or
        nothing does."""
        connected = self._links.get(broker)
        if connected is not None and connected.address != address:
            del self._links[broker]
            self._retired.add(connected)
            connected.ended.add_done_callback(lambda _: self._retired.discard(connected))
            connected.retire(f"it has moved to {address}")

    def _note(self, broker: str, error: PopMQError) -> None:
        before = self._failures.pop(broker, None)
        backoff_s = BACKOFF_S if before is None else min(before.backoff_s * 2, BACKOFF_S_MAX)
        retry_at_s = asyncio.get_running_loop().time() + backoff_s
        self._failures[broker] = ConnectFailure(error, backoff_s, retry_at_s)
        if len(self._failures) > FAILURES_MAX:
            self._failures.popitem(last=False)

    async def _open(self, broker: str, address: str) -> BrokerLink:
        """Raises `BrokerUnreachable`, `NotAuthorized`."""
        try:
            async with asyncio.timeout(CONNECT_S):
                frames = await self._reach(address)
                try:
                    await greet(frames, broker, self._secret, "POPMQ_PROXY_LINK_TLS")
                except BaseException:
                    frames.close()
                    raise
        except ssl.SSLError as refused:  # mypyc knows one type of each name
            reason = f"{failure_text(refused)} (TLS of the link)"
            raise BrokerUnreachable(broker=broker, reason=reason) from refused
        except (OSError, ValueError) as failed:  # time-outs are among them
            raise BrokerUnreachable(broker=broker, reason=str(failed) or "no answer") from failed
        return BrokerLink(broker, frames, self._gathering, address)

    async def _reach(self, address: str) -> FrameConnection:
        """By the Unix socket of a broker of this machine, else by its port. Raises `OSError`,
        `ValueError` for an address that is none."""
        loop = asyncio.get_running_loop()
        sock = None if self._tls else link_socket.connected(address, self._log)
        if sock is not None:
            _, frames = await loop.create_unix_connection(FrameConnection, sock=sock)
            return frames
        host, _, port = address.rpartition(":")
        _, frames = await loop.create_connection(
            FrameConnection, host.strip("[]"), int(port), ssl=self._tls
        )
        return frames

    async def close(self) -> None:
        self._closed = True
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        await asyncio.gather(*(made.close() for made in [*self._links.values(), *self._retired]))


def _retrieve(task: "asyncio.Task[BrokerLink]") -> None:
    """Those who waited have been told; perhaps none of them waits any more."""
    if not task.cancelled():
        task.exception()
