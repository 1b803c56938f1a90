"""A call, and the messages of its request one after the other; what is held of them is counted."""

from typing import Any

from popmq_proxy.front.events import Event, Receive, Send, SendWhole
from popmq_proxy.front.grpc_wire import Code, GrpcError, MessageReader, Unpacking
from popmq_proxy.front.room import Accounts, Room
from popmq_proxy.front.steps import Steps
from popmq_proxy.rpc.shared.context import CallContext


class ClientGone(Exception):
    """The client went before its request was whole."""


class Call:
    """One RPC under way, and what is held of its request."""

    __slots__ = (
        "_held_bytes",
        "_room",
        "accounts",
        "context",
        "decoded",
        "receive",
        "send",
        "whole",
    )

    def __init__(
        self, scope: Event, context: CallContext, receive: Receive, send: Send, room: Room
    ) -> None:
        """`room` is that of all requests."""
        self.context = context
        self.receive = receive
        self.send = send
        self.accounts: Accounts = scope["accounts"]
        """The client's."""
        self.whole: SendWhole = scope["whole"]
        """Where an answer may leave in one go."""
        self.decoded: Any = None
        """The request, when it was decoded before it came here."""
        self._room = room
        self._held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """So much now. Raises `GrpcError` when all of them hold too much."""
        grown_bytes = size_bytes - self._held_bytes
        account = self.accounts.received
        if grown_bytes > 0 and not self._room.admits(account, grown_bytes):
            text = f"requests hold nearly all of {self._room.limit} bytes"
            raise GrpcError(Code.RESOURCE_EXHAUSTED, text)
        self._room.take(account, grown_bytes)
        self._held_bytes = size_bytes


class Messages:
    def __init__(self, call: Call, first: Event, bytes_max: int, steps: Steps) -> None:
        """`first` is what came of the request first; `bytes_max` bounds one message; `steps` are
        those of all calls."""
        self._call = call
        self._steps = steps
        self._bytes_max = bytes_max
        self._reader = MessageReader(bytes_max)
        self._ended = False
        self._take(first)

    async def next(self) -> bytes | None:
        """None: the request is over. Raises `GrpcError`, `ClientGone`."""
        while (found := self._reader.next()) is None:
            self._call.hold(self._reader.held_bytes)
            if self._ended:
                self._reader.end()
                return None
            self._take(await self._call.receive())
        packed, message = found
        if packed:
            message = await self._unpacked(message)
        self._call.hold(self._reader.held_bytes + len(message))
        return message

    async def only(self) -> bytes:
        """The one message of a request. Raises as soon as there is another one."""
        message = await self.next()
        if message is None:
            raise GrpcError(Code.INTERNAL, "no message in a call that takes one")
        while not self._reader.held_bytes and not self._ended:
            self._take(await self._call.receive())
        if self._reader.held_bytes:
            raise GrpcError(Code.INTERNAL, "more than one message in a call that takes one")
        return message

    def _take(self, event: Event) -> None:
        if event["type"] == "http.disconnect":
            raise ClientGone()
        self._reader.feed(event.get("body", b""))
        self._ended = not event.get("more_body")

    async def _unpacked(self, message: bytes) -> bytes:
        """Others have their turn between two pieces."""
        encoding = self._call.context.metadata.get("grpc-encoding", "")
        unpacking = Unpacking(message, encoding, self._bytes_max)

        def step() -> bool:
            done = unpacking.step()
            self._call.hold(self._reader.held_bytes + len(message) + unpacking.unpacked_bytes)
            return done

        await self._steps.run(step)
        return unpacking.message()
