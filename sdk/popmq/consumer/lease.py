"""Leases are renewed while their messages are handled, from a thread of its own.

A handler that computes for minutes without an `await` holds up the event loop, not this thread:
it has a connection of its own, and takes turns with the handler as threads do. What is renewed
when is decided by `_core/renewals.py`.

Messages that are due together are renewed together (ExtendRuns), and their handles stay. A server
that does not know that renews each alone, and gives it a new handle. So who settles a message ends
its lease first: `end` waits for a renewal that is under way, and the newest handle is used.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq._core.messages import convert
from popmq._core.messages.held_message import give_handle
from popmq._core.renewals import Held, LeaseRenewals
from popmq.connection.connection import DENIED, Connection
from popmq.connection.endpoints import ServerRotation, channel
from popmq.errors import AccessDenied, InvalidReceiptHandle, PopMQClientError, error_of
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_consumer.v1 import consumer_pb2_grpc as consumer_grpc

log = logging.getLogger(__name__)
UNDER_WAY_MAX: Final = 1_024
"""Messages whose renewals are asked for at a time; the server takes as many in a request."""
ALONE_UNDER_WAY_MAX: Final = 32
"""The same where each needs a request of its own."""
EXTEND_RUNS: Final = "ExtendRuns"
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
Wrong = Exception | None


class RenewalRequest(NamedTuple):
    """A request that is under way."""

    rpc: str
    leases: Sequence[tuple[Held[int], ReceivedMessage]]
    address: str
    at_s: float
    told: Callable[[Any], Sequence[Wrong]]
    """The response → what is wrong with each lease. Raises what is wrong with all."""


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
        self._servers: ServerRotation[_ServerStubs] = ServerRotation(
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
        """It is renewed no more, and its handle is the newest one. For who says nothing more of it
        than one ack. False: a renewal is under way that gives it a new handle, and nothing has
        changed; `end` waits for it."""
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
        for opened in self._servers.made.values():
            opened.channel.close()

    def _open(self, address: str) -> "_ServerStubs":
        opened = channel(grpc, address, self._connection.tls)
        messaging = service_grpc.MessagingServiceStub(opened)
        return _ServerStubs(opened, messaging, consumer_grpc.ConsumerStub(opened))

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                now_s = time.monotonic()
                most = UNDER_WAY_MAX if self._by_runs() else ALONE_UNDER_WAY_MAX
                renew, over = self._renewals.due(now_s, most - self._under_way)
                gone = [self._kept.pop(key) for key in over]
                self._under_way += len(renew)
                asked = [(held, self._kept[held.key][0]) for held in renew]
                if not renew and not gone:
                    next_s = self._renewals.next_s()
                    full = self._under_way >= most
                    wait_s = IDLE_S if next_s is None or full else min(IDLE_S, next_s - now_s)
                    self._looks_s = now_s + wait_s
                    self._changed.wait(max(wait_s, 0.0))
                    continue
            for kept in gone:
                self._tell(kept, "has been held for its longest time")
            self._ask_all(asked)

    def _by_runs(self) -> bool:
        return EXTEND_RUNS not in self._connection.unknown

    def _ask_all(self, leases: Sequence[tuple[Held[int], ReceivedMessage]]) -> None:
        """Those of one topic and group that are held equally long share a request."""
        alike: dict[tuple[str, str, float], list[tuple[Held[int], ReceivedMessage]]] = {}
        for held, message in leases:
            alike.setdefault((message.topic, message.group, held.lease_s), []).append(
                (held, message)
            )
        for some in alike.values():
            if self._by_runs():
                runs = convert.runs_of([message for _, message in some])
                if runs is not None:
                    self._ask_by_runs(some, runs)
                    continue
                self._connection.unknown.add(EXTEND_RUNS)  # these handles are no PopMQ's
            for one in some:
                self._ask_alone(one)

    def _ask_by_runs(
        self, leases: Sequence[tuple[Held[int], ReceivedMessage]], runs: convert.Runs
    ) -> None:
        connection = self._connection
        with self._lock:
            for held, _ in leases:
                held.handle_stays = True
        held, message = leases[0]
        group, topic = connection.resource(message.group), connection.resource(message.topic)
        request = convert.extend(runs, group, topic, held.lease_s)

        def told(response: consumer.ExtendRunsResponse) -> list[Wrong]:
            refused = {(one.run, one.queue_offset): one.status for one in response.refusals}
            if not refused:
                connection.check(response.status, EXTEND_RUNS)
            if any(one.code == v2.NOT_IMPLEMENTED for one in refused.values()):
                connection.unknown.add(EXTEND_RUNS)
            found = [refused.get(place) for place in runs.places]
            return [None if status is None else error_of(status) for status in found]

        self._ask(EXTEND_RUNS, self._servers.current().consumer.ExtendRuns, request, leases, told)

    def _ask_alone(self, lease: tuple[Held[int], ReceivedMessage]) -> None:
        connection = self._connection
        held, message = lease
        group, topic = connection.resource(message.group), connection.resource(message.topic)
        request = convert.change(message, group, topic, held.lease_s)
        rpc = "ChangeInvisibleDuration"

        def told(response: service.ChangeInvisibleDurationResponse) -> list[Wrong]:
            connection.check(response.status, rpc)
            give_handle(message, response.receipt_handle)
            return [None]

        messaging = self._servers.current().messaging
        self._ask(rpc, messaging.ChangeInvisibleDuration, request, [lease], told)

    def _ask(
        self,
        rpc: str,
        method: Any,
        request: Any,
        leases: Sequence[tuple[Held[int], ReceivedMessage]],
        told: Callable[[Any], Sequence[Wrong]],
    ) -> None:
        connection = self._connection
        asked = RenewalRequest(rpc, leases, self._servers.name, time.monotonic(), told)
        future = method.future(
            request, timeout=connection.timeout_s, metadata=connection.metadata()
        )
        future.add_done_callback(lambda call: self._answered(asked, call))

    def _answered(self, asked: RenewalRequest, call: Any) -> None:
        """In a thread of gRPC's."""
        waiting: list[asyncio.Future[None]] = []
        told: list[tuple[ReceivedMessage, Exception, Kept | None]] = []
        with self._lock:
            wrongs = self._wrongs(asked, call)
            self._under_way -= len(asked.leases)
            now_s = time.monotonic()
            for (held, message), wrong in zip(asked.leases, wrongs, strict=True):
                if not held.handle_stays:
                    message.unanswered_s = held.lease_s if _is_open(wrong) else None
                still_held = self._renewals.holds(held.key)
                lost = self._renewed(held, message, wrong, asked.at_s, now_s)
                waits = self._waiting.pop(held.key, [])
                waiting += waits
                if wrong is not None and still_held:
                    told.append((message, wrong, None if waits else lost))
            self._changed.notify()
        for future in waiting:
            _in_loop(future.get_loop(), _set, future)
        for message, wrong, lost in told:
            if lost is not None:
                what = "renewed" if isinstance(wrong, AccessDenied) else "held"
                self._tell(lost, f"is no longer {what}: {wrong}")
            else:
                more = fields(message, wrong)
                text = "the lease of %s was not renewed yet: %s"
                log.info(text, message.message_id, wrong, extra=more)

    def _wrongs(self, asked: RenewalRequest, call: Any) -> Sequence[Wrong]:
        try:
            return asked.told(call.result())
        except (grpc.RpcError, grpc.FutureCancelledError, PopMQClientError) as failed:
            wrong: Exception = failed
        if isinstance(wrong, grpc.RpcError):
            if call.code() in DENIED:
                wrong = self._connection.denied(call, asked.rpc)
            elif call.code() is grpc.StatusCode.UNIMPLEMENTED:
                self._connection.unknown.add(EXTEND_RUNS)
            else:
                self._servers.failed(asked.address)
        return [wrong] * len(asked.leases)

    def _renewed(
        self,
        held: Held[int],
        message: ReceivedMessage,
        wrong: Wrong,
        asked_s: float,
        now_s: float,
    ) -> Kept | None:
        """What is held no longer, because the server says so."""
        lost = None
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
        return lost

    def _tell(self, kept: Kept, what: str) -> None:
        message, terms = kept
        more = fields(message, what)
        log.warning("message %s %s; it is redelivered", message.message_id, what, extra=more)
        _in_loop(terms.loop, terms.over, message)


class _ServerStubs(NamedTuple):
    """A server, and what may be asked of it."""

    channel: Any
    messaging: Any
    consumer: Any


def _is_open(wrong: Wrong) -> bool:
    """Whether the server has renewed the lease is not known."""
    return isinstance(wrong, grpc.RpcError) or getattr(wrong, "retriable", False)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *what: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *what)
    except RuntimeError:  # the loop is closed: nobody waits any more
        log.debug("the loop of a lease is closed")
