"""Leases are renewed while their messages are handled, from a thread of its own.

A handler that computes for minutes without an `await` holds up the event loop, not this thread:
it has a connection of its own, and takes turns with the handler as threads do. What is renewed
when is decided by `_core/renewals.py`.

A renewal gives the message a new receipt handle. So who settles a message ends its lease first:
`end` waits for a renewal that is under way, and the newest handle is used.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import grpc

from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq._core.messages import convert
from popmq._core.messages.held_message import give_handle
from popmq._core.renewals import Held, LeaseRenewals
from popmq.connection.connection import DENIED, Connection
from popmq.connection.endpoints import ServerRotation, channel
from popmq.errors import AccessDenied, InvalidReceiptHandle, PopMQClientError
from popmq.log_fields import fields
from popmq.message import ReceivedMessage

log = logging.getLogger(__name__)
UNDER_WAY_MAX: Final = 32
"""Renewals that are asked for at a time; each message needs a request of its own."""
RPC: Final = "ChangeInvisibleDuration"
IDLE_S: Final = 60.0
"""The thread looks at least so often."""
STOP_S: Final = 5.0


class Terms(NamedTuple):
    """How messages that were received together are held."""

    longest_s: float
    over: Callable[[ReceivedMessage], None]
    """Called in the loop when it has been held for its longest time, or was lost."""
    loop: asyncio.AbstractEventLoop


Kept = tuple[ReceivedMessage, Terms]
"""A message whose lease is renewed."""


class Leases:
    """Of one client. The thread begins with the first lease."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._renewals: LeaseRenewals[int] = LeaseRenewals()
        self._kept: dict[int, Kept] = {}
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}
        self._under_way = 0
        self._looks_s = float("-inf")
        """When the thread looks next."""
        self._closed = False
        self._thread: threading.Thread | None = None
        self._servers: ServerRotation[tuple[Any, Any]] = ServerRotation(
            connection.addresses, self._open
        )

    def hold(
        self,
        messages: Sequence[ReceivedMessage],
        lease_s: float,
        longest_s: float,
        over: Callable[[ReceivedMessage], None],
    ) -> None:
        """Renew their leases of `lease_s` until `end`, for `longest_s` at most."""
        if not messages:
            return
        terms = Terms(longest_s, over, asyncio.get_running_loop())
        # They are kept here, so nothing else gets their numbers.
        kept = {id(message): (message, terms) for message in messages}
        with self._lock:
            self._kept.update(kept)
            due_s = self._renewals.hold_all(list(kept), time.monotonic(), lease_s, longest_s)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="popmq-leases", daemon=True)
                self._thread.start()
            elif due_s < self._looks_s:
                self._changed.notify()

    def end_now(self, message: ReceivedMessage) -> bool:
        """It is renewed no more, and its handle is the newest one. False: a renewal is under way,
        and nothing has changed; `end` waits for it."""
        key = id(message)
        with self._lock:
            if not self._renewals.end_now(key):
                return False
            self._kept.pop(key, None)
            return True

    async def end(self, message: ReceivedMessage) -> Terms | None:
        """The same, waited for; returns how it was held."""
        key = id(message)
        with self._lock:
            under_way = self._renewals.end(key)
            if not under_way:
                known = self._kept.pop(key, None)
                return None if known is None else known[1]
            kept = self._kept.get(key)
            answered = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(key, []).append(answered)
        await answered
        return None if kept is None else kept[1]

    def holds(self, message: ReceivedMessage) -> bool:
        with self._lock:
            return self._renewals.holds(id(message))

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            await asyncio.to_thread(thread.join, STOP_S)
        for opened, _ in self._servers.made.values():
            opened.close()

    def _open(self, address: str) -> tuple[Any, Any]:
        opened = channel(grpc, address, self._connection.tls)
        return opened, service_grpc.MessagingServiceStub(opened)

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                now_s = time.monotonic()
                renew, over = self._renewals.due(now_s, UNDER_WAY_MAX - self._under_way)
                gone = [self._kept.pop(key) for key in over]
                self._under_way += len(renew)
                asked = [(held, self._kept[held.key][0]) for held in renew]
                if not renew and not gone:
                    next_s = self._renewals.next_s()
                    full = self._under_way >= UNDER_WAY_MAX
                    wait_s = IDLE_S if next_s is None or full else min(IDLE_S, next_s - now_s)
                    self._looks_s = now_s + wait_s
                    self._changed.wait(max(wait_s, 0.0))
                    continue
            for kept in gone:
                self._tell(kept, "has been held for its longest time")
            for held, message in asked:
                self._ask(held, message)

    def _ask(self, held: Held[int], message: ReceivedMessage) -> None:
        connection = self._connection
        address = self._servers.name
        request = convert.change(
            message,
            connection.resource(message.group),
            connection.resource(message.topic),
            held.lease_s,
        )
        asked_s = time.monotonic()
        future = self._servers.current()[1].ChangeInvisibleDuration.future(
            request, timeout=connection.timeout_s, metadata=connection.metadata()
        )
        future.add_done_callback(lambda call: self._answered(held, message, asked_s, address, call))

    def _answered(
        self, held: Held[int], message: ReceivedMessage, asked_s: float, address: str, call: Any
    ) -> None:
        """In a thread of gRPC's."""
        lost: Kept | None = None
        wrong: Exception | None = None
        handle = ""
        try:
            response = call.result()
            self._connection.check(response.status, RPC)
            handle = response.receipt_handle
        except (grpc.RpcError, grpc.FutureCancelledError, PopMQClientError) as failed:
            wrong = failed
            if isinstance(failed, grpc.RpcError):
                if call.code() in DENIED:
                    wrong = self._connection.denied(call, RPC)
                else:
                    self._servers.failed(address)
        with self._lock:
            if handle:
                give_handle(message, handle)
            unanswered = isinstance(wrong, grpc.RpcError) or getattr(wrong, "retriable", False)
            message.unanswered_s = held.lease_s if unanswered else None
            self._under_way -= 1
            now_s = time.monotonic()
            if wrong is None:
                still = self._renewals.renewed(held, asked_s, now_s)
                message.held_until_s = now_s + held.lease_s
            elif isinstance(wrong, InvalidReceiptHandle | AccessDenied):
                still = False
                self._renewals.end(held.key)
                lost = self._kept.get(held.key)
            else:
                self._renewals.failed(held, now_s)
                still = self._renewals.holds(held.key)
            if not still:
                self._kept.pop(held.key, None)
            waiting = self._waiting.pop(held.key, [])
            self._changed.notify()
        for future in waiting:
            _in_loop(future.get_loop(), _set, future)
        if lost is not None and not waiting:
            over = (
                "is no longer renewed" if isinstance(wrong, AccessDenied) else "is no longer held"
            )
            self._tell(lost, f"{over}: {wrong}")
        elif wrong is not None:
            more = fields(message, wrong)
            log.info(
                "the lease of %s was not renewed yet: %s", message.message_id, wrong, extra=more
            )

    def _tell(self, kept: Kept, what: str) -> None:
        message, terms = kept
        more = fields(message, what)
        log.warning("message %s %s; it is redelivered", message.message_id, what, extra=more)
        _in_loop(terms.loop, terms.over, message)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *what: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *what)
    except RuntimeError:  # the loop is closed: nobody waits any more
        log.debug("the loop of a lease is closed")
