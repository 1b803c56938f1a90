"""The broker's end of the link: calls of many proxies, answered as they finish."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from popmq_broker.rpc.greeting import greet
from popmq_common.errors import (
    BadRequest,
    BrokerUnreachable,
    NotPrimary,
    PopMQError,
    TooManyRequests,
)
from popmq_common.link import link_socket
from popmq_common.link.frames import FrameConnection
from popmq_common.link.sends import SendCall, SendDone
from popmq_common.link.wire import failure_of
from popmq_common.process.fatal import exit_on_error
from popmq_common.process.floods import TICK_S, FloodMemory
from popmq_common.process.logs import Log
from popmq_common.units import KiB
from popmq_internal.v1 import link_pb2 as link

CALLS_MAX = 20_000  # under way per connection; a proxy with that many has lost its clients
CONNECTIONS_MAX = 1_000
GREETING_S = 5.0
GREETING_BYTES_MAX = 64 * KiB
"""The largest frame read of a peer before it has proved that it knows the secret."""
GRACE_S = 5.0
FAREWELL_S = 1.0
"""How long proxies that have no calls under way may take to close their connections."""
WAITING = ("pop", "watch")
"""Calls that wait until something arrives; they end when the broker stops."""
Handle = Callable[[link.Call], Awaitable[link.Reply]]
HandleSends = Callable[
    [Sequence[link.Call | SendCall], Callable[[link.Reply | SendDone], None]], None
]


class LinkServer:
    def __init__(
        self,
        handle: Handle,
        handle_sends: HandleSends,
        *,
        name: str,
        secret: bytes,
        log: Log,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`secret`: what proxies must know; empty: nothing.

        `handle` raises errors of popmq_common.errors; anything else is a bug and is logged.

        `handle_sends` takes the sends of a frame together and answers each when it is done.
        """
        self._handle = handle
        self._handle_sends = handle_sends
        self._name = name
        self._secret = secret
        self._log = log
        self._tls = tls
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], LinkConnection | None] = {}
        self._memory = FloodMemory(lambda: self.call_count)
        self._watching: asyncio.Task[None] | None = None
        self.port = 0

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def call_count(self) -> int:
        """Under way, of all proxies."""
        return sum(one.call_count for one in self._connections.values() if one is not None)

    async def start(self, host: str, port: int, *, unix_socket: bool = False) -> None:
        """`unix_socket`: proxies of this machine may come by one, if there is no TLS."""
        self._watching = asyncio.create_task(self._watch())
        self._watching.add_done_callback(partial(exit_on_error, self._log, "link.failed"))
        loop = asyncio.get_running_loop()
        by_port = await loop.create_server(
            self._incoming,
            host,
            port,
            ssl=self._tls,
            ssl_handshake_timeout=GREETING_S if self._tls else None,
        )
        self._servers.append(by_port)
        self.port = by_port.sockets[0].getsockname()[1]
        if unix_socket and self._tls is None:
            listener = link_socket.listening(f"{host}:{self.port}", self._log)
            if listener is not None:
                self._servers.append(await loop.create_unix_server(self._incoming, sock=listener))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._memory.pass_tick(self.call_count)

    def _incoming(self) -> FrameConnection:
        return FrameConnection(self._made, GREETING_BYTES_MAX)

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Take no more connections and calls, let calls finish for a while, then cut them off.

        Waiting pops do not hold it up: they end at once, with nothing taken. Proxies are told, and
        hang up themselves: of a call that crosses a connection's end nobody knows what became.
        """
        if self._watching is not None:
            self._watching.cancel()
        self._memory.close()
        for server in self._servers:
            server.close()
        open_ones = [c for c in self._connections.values() if c is not None]
        try:
            async with asyncio.timeout(grace_s):
                await asyncio.gather(*(c.drain() for c in open_ones))
        except TimeoutError:
            self._log.warning("link.cut_off", grace_s=grace_s)
        if open_ones:
            await asyncio.wait([c.ended for c in open_ones], timeout=FAREWELL_S)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=GRACE_S)

    async def turn_away(self, grace_s: float) -> None:
        """Another replica is primary, or will be: what proxies have asked for is finished, as at a
        stop, and they look for the broker again. Connections of other replicas stay."""
        those = [c for c in self._connections.values() if c is not None and not c.is_replica]
        if those:
            reason = "another replica is primary, or will be"
            moved = NotPrimary(broker=self._name, reason=reason)
            draining = [asyncio.create_task(c.drain(moved)) for c in those]
            _, late = await asyncio.wait(draining, timeout=grace_s)
            for task in late:
                task.cancel()

    def _made(self, frames: FrameConnection) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            self._log.warning("link.refused", reason="too many connections", limit=CONNECTIONS_MAX)
            frames.close()
            return
        task = asyncio.create_task(self._converse(frames))
        self._connections[task] = None
        # not by the task itself: one that is cancelled before its first step never runs
        task.add_done_callback(lambda task: self._gone(task, frames))

    def _gone(self, task: asyncio.Task[None], frames: FrameConnection) -> None:
        del self._connections[task]
        frames.close()
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._log.error("link.crashed", exc_info=bug)

    async def _converse(self, frames: FrameConnection) -> None:
        try:
            async with asyncio.timeout(GREETING_S):
                if not await greet(frames, self._name, self._secret, self._log):
                    return
            connection = LinkConnection(
                self._handle,
                self._handle_sends,
                frames,
                self._name,
                self._log,
                self._memory.begin_call,
            )
            task = asyncio.current_task()
            assert task is not None
            self._connections[task] = connection
            await connection.serve()
        except (OSError, PopMQError) as broken:
            self._log.info("link.broken", reason=str(broken))


class LinkConnection:
    """One proxy's connection: sends frame by frame, and a task per other call under way."""

    def __init__(
        self,
        handle: Handle,
        handle_sends: HandleSends,
        frames: FrameConnection,
        name: str,
        log: Log,
        call_begins: Callable[[], None] = lambda: None,
    ) -> None:
        """`call_begins` is told of each that may wait."""
        self._call_begins = call_begins
        self._handle = handle
        self._handle_sends = handle_sends
        self._frames = frames
        self._name = name
        self._log = log
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._pops: set[int] = set()
        self._sends: set[int] = set()
        self._no_sends = asyncio.Event()
        self._no_sends.set()
        self._stops: BrokerUnreachable | None = None
        """Why no new calls are taken."""
        self.is_replica = False
        """It fetches the log."""

    @property
    def call_count(self) -> int:
        return len(self._calls) + len(self._sends)

    async def serve(self) -> None:
        """Until the proxy is gone; its calls end with it. Raises `OSError`, `BadRequest`,
        `TooManyRequests` for a proxy that sends and does not read."""
        try:
            self._frames.begin(self._receive)
            await asyncio.wait([self._frames.ended])  # a cancelled wait leaves the future alone
            self._frames.ended.result()
        finally:
            calls = list(self._calls.values())
            for task in calls:
                task.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    @property
    def ended(self) -> "asyncio.Future[None]":
        return self._frames.ended

    async def drain(self, why: BrokerUnreachable | None = None) -> None:
        """Refuse new calls, end waiting pops, and wait for the others and their replies. `why`:
        what they are answered with; none: the broker is stopping."""
        stops = self._stops = why or BrokerUnreachable(broker=self._name, reason="it is stopping")
        self._answer(link.Reply(failure=failure_of(stops)))
        for call_id in self._pops:
            self._calls[call_id].cancel()
        if self._calls:
            await asyncio.wait(self._calls.values())
        await self._no_sends.wait()
        await self._frames.flush()

    def _receive(self, frame: link.Frame) -> None:
        sends: list[link.Call | SendCall] = []
        for call in frame.calls:
            kind = call.WhichOneof("body")
            if kind == "cancel":
                task = self._calls.get(call.cancel.call_id)
                if task is not None:
                    task.cancel()
            elif self._accepts(call):
                if kind == "send":
                    sends.append(call)
                    self._sends.add(call.id)
                else:
                    self._begin(call, kind)
        if sends:
            self._no_sends.clear()
            try:
                self._handle_sends(sends, self._answer_send)
            except Exception as bug:  # fails these calls, not all the others of the connection
                self._log.exception("call.crashed", kind="send")
                for send in sends:
                    if send.id in self._sends:
                        self._answer_send(link.Reply(id=send.id, failure=_failure_of_bug(bug)))

    def _answer_send(self, reply: link.Reply | SendDone) -> None:
        self._sends.discard(reply.id)
        if not self._sends:
            self._no_sends.set()
        self._answer(reply)

    def _accepts(self, call: link.Call) -> bool:
        """Raises `BadRequest` for an id in use; a call refused for another reason is answered."""
        if call.id in self._calls or call.id in self._sends:
            raise BadRequest(reason=f"call id {call.id} is in use")
        try:
            self._check_accepts()
        except PopMQError as refused:
            self._frames.put(link.Reply(id=call.id, failure=failure_of(refused)))
            return False
        return True

    def _begin(self, call: link.Call, kind: str | None) -> None:
        self._call_begins()
        if kind in WAITING:
            self._pops.add(call.id)
        elif kind == "replica_hello":
            self.is_replica = True
        task = self._calls[call.id] = asyncio.create_task(self._serve(call))
        # not by the task itself: one that is cancelled before its first step never runs
        task.add_done_callback(lambda _: self._forget(call.id))

    def _check_accepts(self) -> None:
        if self._stops is not None:
            raise type(self._stops)(**self._stops.fields)
        if len(self._calls) + len(self._sends) >= CALLS_MAX:
            raise TooManyRequests(what="calls of one proxy", limit=CALLS_MAX)
        self._frames.check_room()

    def _forget(self, call_id: int) -> None:
        del self._calls[call_id]
        self._pops.discard(call_id)
        if not self._calls:
            self._calls.clear()  # as large as they were once, otherwise
            self._pops.clear()

    async def _serve(self, call: link.Call) -> None:
        try:
            reply = await self._handle(call)
            reply.id = call.id
        except PopMQError as error:
            reply = link.Reply(id=call.id, failure=failure_of(error))
        except asyncio.CancelledError:
            if self._stops is None or call.id not in self._pops:
                raise
            reply = link.Reply(id=call.id, failure=failure_of(self._stops))
        except Exception as bug:
            self._log.exception("call.crashed", kind=call.WhichOneof("body"))
            reply = link.Reply(id=call.id, failure=_failure_of_bug(bug))
        self._answer(reply)

    def _answer(self, reply: link.Reply | SendDone) -> None:
        try:
            self._frames.put(reply)
        except BadRequest as too_large:  # fails this call, not all the others of the connection
            self._log.error("reply.refused", call_id=reply.id, reason=str(too_large))
            self._answer(link.Reply(id=reply.id, failure=failure_of(too_large)))
        except TooManyRequests as jammed:
            self._log.warning("link.broken", reason=str(jammed))
            self._frames.abort()


def _failure_of_bug(bug: Exception) -> link.Failure:
    return link.Failure(error=type(bug).__name__, fields={"text": str(bug)})
