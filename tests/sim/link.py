"""The link of the simulation: a broker's real connection over a wire that delays, cuts and loses.

A `Proxy` keeps one connection to the broker, as a proxy does, and passes calls through it in
frames. When the connection breaks, whoever waits for an answer gets `Lost`: the call may have
been done or not.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from sim.violation import Violation

from popmq_broker.engine.broker import Broker
from popmq_broker.rpc.link import LinkConnection
from popmq_common.link.frames import encode_entry
from popmq_common.link.sends import SendDone
from popmq_internal.v1 import link_pb2 as link


class Lost(Exception):
    """Nobody knows whether the call was done."""


class NotSent(Exception):
    """The call has not left: it was not done."""


class Refused(Exception):
    """The broker says that it did nothing."""

    def __init__(self, failure: link.Failure) -> None:
        super().__init__(failure.error, dict(failure.fields))
        self.error = failure.error


class Wire:
    """What `LinkConnection` asks of a `FrameConnection`; frames keep their order."""

    def __init__(self, random: Random, answered: Callable[[link.Reply], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._random = random
        self._answered = answered
        self._received: Callable[[link.Frame], None] | None = None
        self._free_s = [0.0, 0.0]
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.task: asyncio.Task[None] | None = None

    def begin(self, received: Callable[[link.Frame], None]) -> None:
        self._received = received

    def send(self, frame: link.Frame) -> None:
        self._later(0, lambda: self._arrive(frame))

    def put(self, reply: link.Reply | SendDone) -> None:
        _, pieces = encode_entry(reply)
        (sent,) = link.Frame.FromString(b"".join(pieces)).replies
        self._later(1, lambda: self._answered(sent))

    def _arrive(self, frame: link.Frame) -> None:
        if self._received is not None:
            self._received(frame)

    def _later(self, way: int, what: Callable[[], None]) -> None:
        late = self._random.random() < 0.01
        delay_s = self._random.uniform(0.05, 0.4) if late else self._random.uniform(0, 0.003)
        at = self._free_s[way] = max(self._free_s[way], self._loop.time() + delay_s)
        self._loop.call_at(at, lambda: None if self.ended.done() else what())

    def check_room(self) -> None:
        return

    async def flush(self) -> None:
        return

    def abort(self) -> None:
        self.cut()

    def cut(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Proxy:
    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self._random = random
        self._broker: Broker | None = None
        self._wire: Wire | None = None
        self._waiting: dict[int, asyncio.Future[link.Reply]] = {}
        self._outbox: list[link.Call] = []
        self._next_id = 0
        self.connections: dict[asyncio.Task[None], None] = {}

    def connect(self, broker: Broker) -> None:
        self._broker = broker

    def begin(self, body: dict[str, Any]) -> tuple[int, "asyncio.Future[link.Reply]"]:
        """Raises `NotSent`."""
        if self._broker is None:
            raise NotSent
        if self._wire is None:
            self._open(self._broker)
        self._next_id += 1
        call_id = self._next_id
        waiter: asyncio.Future[link.Reply] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = waiter
        self._put(link.Call(id=call_id, **body))
        return call_id, waiter

    async def call(self, **body: Any) -> link.Reply:
        """Raises `NotSent`, `Refused`, `Lost`."""
        _, waiter = self.begin(body)
        return answer_of(await waiter)

    def give_up(self, call_id: int) -> None:
        """The client of a waiting poll has gone away."""
        if self._wire is not None:
            self._put(link.Call(cancel=link.Cancel(call_id=call_id)))

    def cut(self) -> None:
        """The connection breaks; the next call makes a new one."""
        wire, self._wire = self._wire, None
        self._outbox.clear()
        if wire is not None:
            wire.cut()
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(Lost())
                waiter.exception()  # whoever waited may be gone

    def disconnect(self) -> None:
        self._broker = None
        self.cut()

    def _open(self, broker: Broker) -> None:
        wire = self._wire = Wire(self._random, self._answered)
        connection = LinkConnection(
            broker.handle,
            broker.handle_sends,
            wire,  # type: ignore[arg-type]
            broker.name,
            broker.state.runtime.log,
        )
        wire.task = asyncio.create_task(connection.serve())
        self.connections[wire.task] = None
        wire.task.add_done_callback(lambda task: self.connections.pop(task, None))

    def _put(self, call: link.Call) -> None:
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(call)

    def _flush(self) -> None:
        calls, self._outbox = self._outbox, []
        if self._wire is not None and calls:
            self._wire.send(link.Frame(calls=calls))

    def _answered(self, reply: link.Reply) -> None:
        waiter = self._waiting.pop(reply.id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(reply)


NOTHING_DONE = {
    "TopicNotFound",
    "GroupNotFound",
    "NoPermission",
    "IllegalFilter",
    "TooManyInFlight",
    "TooManyRequests",
    "BadRequest",
}


def answer_of(reply: link.Reply) -> link.Reply:
    if not reply.HasField("failure"):
        return reply
    if reply.failure.error in NOTHING_DONE:
        raise Refused(reply.failure)
    if reply.failure.error in ("StoreClosed", "BrokerUnreachable"):
        raise Lost
    raise Violation("crash", f"a call ended with {reply.failure}")
