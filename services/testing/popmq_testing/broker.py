"""The broker as a test sees it: send, receive, move the time, break things, look."""

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

import structlog

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import Message, ReceivedMessage
from popmq._core.messages import convert
from popmq.errors import check
from popmq_common.process import logs
from popmq_common.process.clock import VirtualClock
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext
from popmq_testing import looking
from popmq_testing.loop_thread import LoopThread
from popmq_testing.server import HOST, Server
from popmq_testing.views import Body, DeadLetterView, GroupView, TopicView, is_body

DRAIN_POLL_S: Final = 0.002
_CONTEXT: Final = CallContext({"x-mq-client-id": "popmq.testing"}, "127.0.0.1:0", None)


class PopmqBroker:
    """A real PopMQ for one test. Use it as a context manager, or take the fixture `popmq_broker`.

    Clients of any language connect to `endpoint`; the methods here need no network. Time stands
    still until `advance` moves it. Calls may come from any thread, and block for moments only, so
    async tests call them as they are.
    """

    def __init__(
        self, *, new_groups_from: Literal["first", "last"] = "first", **settings: Any
    ) -> None:
        """`new_groups_from`: where a group begins that nobody has made; in production it is the
        last message. `settings`: of docs/configuration.md, the broker's, in lower case."""
        if not structlog.is_configured():  # a program that tests itself says how it logs
            logs.configure("error")
        self._clock = VirtualClock(time.time_ns() // 1_000_000)
        self._thread = LoopThread()
        self._server = self._thread.run(_made(self._clock, new_groups_from.upper(), settings))
        self._thread.run(self._server.start())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, and removes its files."""
        self._thread.run(self._server.stop())
        self._thread.stop()

    @property
    def endpoint(self) -> str:
        """host:port for clients, without TLS."""
        return f"{HOST}:{self._server.port}"

    # --- topics and groups ---

    def create_topic(self, name: str, *, type: str = "MIXED", queues: int = 8) -> None:
        """Not needed: a topic is made on first use, and takes every kind of message then."""
        config = link.TopicConfig(
            name=name, read_queues=queues, write_queues=queues, message_type=type
        )
        self._call(put_topic=link.PutTopic(topic=config))

    def create_group(
        self,
        name: str,
        *,
        fifo: bool = False,
        max_attempts: int = 16,
        retry: Sequence[float] = (),
        start: Literal["first", "last"] = "first",
    ) -> None:
        """Not needed either, but for one that keeps order or retries in its own way. `retry`:
        seconds to wait after the first failure, the second, and so on."""
        delays_ms = [round(delay_s * 1000) for delay_s in retry]
        config = link.GroupConfig(
            name=name,
            fifo=fifo,
            max_attempts=max_attempts,
            consume_from=start.upper(),
            retry_policy=link.RetryPolicy(delays_ms=delays_ms) if delays_ms else None,
        )
        self._call(put_group=link.PutGroup(group=config))

    # --- messages, without a network ---

    def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """The message's id. Raises the errors of `popmq.errors`."""
        message = Message(
            body=body if isinstance(body, bytes) else body.encode(),
            tag=tag,
            keys=keys,
            properties=properties or {},
            message_group=message_group,
            delay_s=delay_s,
        )
        message_id = f"01{uuid.uuid4().hex.upper()}"
        sent = convert.outgoing(message, v2.Resource(name=topic), message_id, self.now_ms)
        encoded = self._ask("SendMessage", service.SendMessageRequest(messages=[sent]))
        response = service.SendMessageResponse.FromString(encoded.SerializeToString())
        check(response.entries[0].status if response.entries else response.status)
        return message_id

    def receive(
        self, topic: str, group: str, *, max_messages: int = 16, invisible_s: float = 60.0
    ) -> list[ReceivedMessage]:
        """What is there now, hidden for `invisible_s` from then on."""
        request = service.ReceiveMessageRequest(
            group=v2.Resource(name=group),
            message_queue=v2.MessageQueue(topic=v2.Resource(name=topic)),
            batch_size=max_messages,
        )
        request.invisible_duration.FromMilliseconds(round(invisible_s * 1000))
        request.long_polling_timeout.FromMilliseconds(0)
        received = []
        for data in self._ask("ReceiveMessage", request).responses:
            response = service.ReceiveMessageResponse.FromString(data)
            kind = response.WhichOneof("content")
            if kind == "message":
                received.append(convert.incoming(response.message, group, "broker-a"))
            elif kind == "status" and response.status.code != v2.MESSAGE_NOT_FOUND:
                check(response.status)
        return received

    def ack(self, *messages: ReceivedMessage) -> None:
        """Raises the errors of `popmq.errors` for the first that was refused."""
        for message in messages:
            request = service.AckMessageRequest(
                group=v2.Resource(name=message.group),
                topic=v2.Resource(name=message.topic),
                entries=[
                    service.AckMessageEntry(
                        message_id=message.message_id, receipt_handle=message.receipt_handle
                    )
                ],
            )
            check(self._ask("AckMessage", request).entries[0].status)

    def nack(
        self,
        message: ReceivedMessage,
        delay_s: float | None = None,
        reason: str = "",
        *,
        counted: bool = True,
    ) -> None:
        """As `popmq.Client.nack`."""
        kind = consumer.NACK_KIND_COUNTED if counted else consumer.NACK_KIND_UNCOUNTED
        self._nack(message, kind, delay_s, reason)

    def reject(self, message: ReceivedMessage, reason: str) -> None:
        """As `popmq.Client.reject`."""
        self._nack(message, consumer.NACK_KIND_FATAL, None, reason)

    def _nack(
        self,
        message: ReceivedMessage,
        kind: "consumer.NackKind.ValueType",
        delay_s: float | None,
        reason: str,
    ) -> None:
        group, topic = v2.Resource(name=message.group), v2.Resource(name=message.topic)
        request = convert.nack([message], group, topic, convert.NackTerms(kind, delay_s, reason))
        check(self._ask("Nack", request).entries[0].status)

    # --- time ---

    @property
    def now_ms(self) -> int:
        """The broker's clock, milliseconds since 1970; it begins at the test's start."""
        return self._clock.now_ms()

    def advance(self, seconds: float) -> None:
        """Time passes: leases end, delayed messages come, each at its moment."""
        self._thread.run(self._server.advance(round(seconds * 1000)))

    def drain(self, timeout_s: float = 10.0) -> None:
        """Wait until consumers that run elsewhere have settled all that they can get now. Time
        stands still meanwhile: what waits for its next delivery stays. In an async test whose
        consumers share the event loop, await `drained`. Raises `AssertionError` with what is left.
        """
        __tracebackhide__ = True
        until_s = time.monotonic() + timeout_s
        while left := self._left():
            if time.monotonic() > until_s:
                raise AssertionError("\n".join(str(view) for view in left))
            time.sleep(DRAIN_POLL_S)

    async def drained(self, timeout_s: float = 10.0) -> None:
        """`drain` for consumers of the same event loop."""
        __tracebackhide__ = True
        until_s = time.monotonic() + timeout_s
        while left := self._left():
            if time.monotonic() > until_s:
                raise AssertionError("\n".join(str(view) for view in left))
            await asyncio.sleep(DRAIN_POLL_S)

    def _left(self) -> list[GroupView]:
        views = self._thread.run(looking.groups(self._server.broker, ""))
        return [view for view in views if view.ready or view.held or view.blocked]

    # --- faults ---

    def drop_response(self, call: str, times: int = 1) -> None:
        """The next answers to "send", "receive", "ack", "nack", "change_invisible", "recall" or
        "end_transaction" are lost: the server does what is asked, the client sees UNAVAILABLE. Of
        receives those that bring messages, whether the SDK's or another client's."""
        self._server.drops.drop(call, times)

    def crash_broker(self) -> None:
        """As kill -9, and a start on the same files: what was answered is there."""
        self._thread.run(self._server.crash_broker())

    def crash_proxy(self) -> None:
        """Connections end in the middle of what they carry; then a new one serves the endpoint."""

        async def crash() -> None:
            await self._server.stop_proxy()
            await self._server.start_proxy()

        self._thread.run(crash())

    def expire_lease(self, message: ReceivedMessage | str) -> None:
        """The lease of a message (or of a message id) ends now, as when its time had run out: it
        is redelivered as the next attempt, and what its consumer still holds is worth nothing.

        Raises `AssertionError` when nobody holds it."""
        __tracebackhide__ = True
        message_id = message if isinstance(message, str) else message.message_id
        group = "" if isinstance(message, str) else message.group
        ended = self._thread.run(looking.expire(self._server.broker, message_id, group))
        if not ended:
            raise AssertionError(f"nobody holds message {message_id}")

    # --- looking ---

    def topic(self, name: str) -> TopicView:
        """What it holds, consumed or not; empty when nobody has used it."""
        return self._thread.run(looking.topic(self._server.broker, name))

    def group(self, name: str) -> list[GroupView]:
        """Where it is, by topic; retries are counted with their topic."""
        return self._thread.run(looking.groups(self._server.broker, name))

    def dead_letters(self, group: str) -> list[DeadLetterView]:
        """Oldest first."""
        return self._thread.run(looking.dead_letters(self._server.broker, group))

    def explain(self, message_id: str, group: str = "") -> str:
        """Why the message can or cannot be received now, as `popmq explain` says it."""
        return self._thread.run(looking.explain(self._server.broker, message_id, group))

    def assert_no_messages_left(self, group: str) -> None:
        """The group has settled all of its topics. Raises `AssertionError` with what is left."""
        __tracebackhide__ = True
        left = [view for view in self.group(group) if view.left]
        if left:
            raise AssertionError("\n".join(str(view) for view in left))

    def assert_no_dead_letters(self, group: str) -> None:
        """Raises `AssertionError` with their reasons."""
        __tracebackhide__ = True
        found = self.dead_letters(group)
        if found:
            lines = [f"  {one.body[:80]!r} after {one.attempts}: {one.reason}" for one in found]
            raise AssertionError("\n".join([f"group {group} has dead letters:", *lines]))

    def assert_dead_letter(
        self, group: str, body: Body | None = None, *, reason: str = ""
    ) -> DeadLetterView:
        """The newest with that body, and that in its reason. Raises `AssertionError`."""
        __tracebackhide__ = True
        letters = self.dead_letters(group)
        for one in reversed(letters):
            if (body is None or is_body(one.body, body)) and reason in one.reason:
                return one
        lines = [f"  {one.body[:80]!r} after {one.attempts}: {one.reason}" for one in letters]
        shown = lines or ["  there are none"]
        raise AssertionError("\n".join([f"group {group} has no such dead letter:", *shown]))

    def _call(self, **body: Any) -> link.Reply:
        return self._thread.run(self._server.broker.handle(link.Call(**body)))

    def _ask(self, rpc: str, request: Any) -> Any:
        return self._thread.run(self._server.rpcs[rpc].handler(_CONTEXT, request))


async def _made(clock: VirtualClock, new_groups_from: str, settings: dict[str, Any]) -> Server:
    return Server(clock, new_groups_from, settings)
