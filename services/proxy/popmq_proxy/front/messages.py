"""A call, and the messages of its request one after the other; they count in the request buffer."""

from typing import Any

from popmq_proxy.front.client_budgets import Accounts, ClientBudget
from popmq_proxy.front.events import Event, Receive, Send, SendWhole
from popmq_proxy.front.grpc_wire import Code, GrpcError, MessageReader, Unpacking
from popmq_proxy.front.time_slices import TimeSlices
from popmq_proxy.rpc.shared.context import CallContext


class ClientGone(Exception):
    """The client went before its request was whole."""


class Call:
    """One RPC under way, and what is held of its request."""

    __slots__ = (
        "_budget",
        "_held_bytes",
        "accounts",
        "context",
        "decoded",
        "receive",
        "send",
        "whole",
    )

    def __init__(
        self, scope: Event, context: CallContext, receive: Receive, send: Send, budget: ClientBudget
    ) -> None:
        """`budget` is that of all requests."""
        self.context = context
        self.receive = receive
        self.send = send
        self.accounts: Accounts = scope["accounts"]
        """The client's."""
        self.whole: SendWhole = scope["whole"]
        """Where an answer may leave in one go."""
        self.decoded: Any = None
        """The request, when it was decoded before it came here."""
        self._budget = budget
        self._held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """So much now. Raises `GrpcError` when all of them hold too much."""
        grown_bytes = size_bytes - self._held_bytes
        account = self.accounts.request_buffer
        if grown_bytes > 0 and not self._budget.admits(account, grown_bytes):
            text = f"requests hold nearly all of {self._budget.limit} bytes"
            raise GrpcError(Code.RESOURCE_EXHAUSTED, text)
        self._budget.take(account, grown_bytes)
        self._held_bytes = size_bytes


class Messages:
    def __init__(self, call: Call, first: Event, bytes_max: int, time_slices: TimeSlices) -> None:
        """`first` is what came of the request first; `bytes_max` bounds one message; `time_slices`
        are those of all calls."""
        self._call = call
        self._time_slices = time_slices
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

        await self._time_slices.run(step)
        return unpacking.message()
