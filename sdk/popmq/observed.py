"""The parts of a client that has an observer: the same work, with a hook around it.

A client without one is made of the plain parts, so that it pays for nothing here.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from popmq.connection.connection import ATTEMPTS, Connection
from popmq.connection.telemetry import Telemetry
from popmq.consumer.lease import Leases
from popmq.consumer.receiving import Receiving, Wanted
from popmq.consumer.settling import Settling
from popmq.errors import PopMQClientError
from popmq.message import Message, MessageHolder, ReceivedMessage
from popmq.observer import Observer
from popmq.producer.producer import Producer
from popmq.producer.sending import Sending
from popmq.producer.transaction import ClientTransactions, HalfMessage
from popmq.send_receipt import SendReceipt
from popmq.serializer import Serializer

T = TypeVar("T")


class ObservedSending(Sending):
    def __init__(self, observer: Observer, connection: Connection, telemetry: Telemetry) -> None:
        super().__init__(connection, telemetry)
        self._observer = observer

    async def send(
        self, topic: str, messages: Sequence[Message], attempts: int = ATTEMPTS
    ) -> list[SendReceipt | PopMQClientError]:
        if not messages:
            return await super().send(topic, messages, attempts)
        with self._observer.send(topic, messages) as sends:
            results = await super().send(topic, sends.messages, attempts)
            sends.answered(results)
        return results


class ObservedProducer(Producer[T]):
    def __init__(
        self, observer: Observer, sending: Sending, serializer: Serializer[T], **bounds: Any
    ) -> None:
        super().__init__(sending, serializer, **bounds)
        self._observer = observer

    async def send(
        self,
        topic: str,
        body: T,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
    ) -> SendReceipt:
        message = Message(
            body=self._serializer.encode(body),
            tag=tag,
            keys=keys,
            properties=properties or {},
            message_group=message_group,
            delay_s=delay_s,
            deliver_at=deliver_at,
        )
        (result,) = await self._results(topic, [message])
        if isinstance(result, PopMQClientError):
            raise result
        return result

    async def _results(
        self, topic: str, messages: Sequence[Message]
    ) -> list[SendReceipt | PopMQClientError]:
        if not messages:
            return []
        with self._observer.send(topic, messages) as sends:
            results = await super()._results(topic, sends.messages)
            sends.answered(results)
        return results


class ObservedTransactions(ClientTransactions):
    def __init__(self, observer: Observer, *parts: Any) -> None:
        super().__init__(*parts)
        self._observer = observer

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ask_after_s: int | None = None,
    ) -> HalfMessage:
        half = Message(body=body, tag=tag, keys=keys, properties=properties or {})
        with self._observer.send(topic, [half], transaction=True) as sends:
            sent = await super().send(
                topic,
                body,
                tag=tag,
                keys=keys,
                properties=sends.messages[0].properties,
                ask_after_s=ask_after_s,
            )
            sends.answered([SendReceipt(message_id=sent.message_id, queue_offset=0)])
        return sent


class ObservedReceiving(Receiving):
    """Polls for an app's handlers (`receive_at`) are its own business: the handlers are told of."""

    def __init__(self, observer: Observer, connection: Connection, telemetry: Telemetry) -> None:
        super().__init__(connection, telemetry)
        self._observer = observer

    async def receive(
        self, wanted: Wanted, max_messages: int, wait_s: float, holder: MessageHolder | None
    ) -> list[ReceivedMessage]:
        with self._observer.receive(wanted.topic, wanted.group) as receives:
            found = await super().receive(wanted, max_messages, wait_s, holder)
            receives.found(found)
        return found


class ObservedSettling(Settling):
    def __init__(self, observer: Observer, connection: Connection, leases: Leases) -> None:
        super().__init__(connection, leases)
        self._observer = observer

    def ack_now(self, message: ReceivedMessage, tell: Callable[[Exception | None], None]) -> bool:
        """Always by `ack`, which lasts as long as what is told of it."""
        return False

    async def ack(self, message: ReceivedMessage) -> None:
        with self._observer.settle(message, "ack"):
            await super().ack(message)

    async def nack(
        self, message: ReceivedMessage, delay_s: float | None, reason: str, *, counted: bool
    ) -> None:
        with self._observer.settle(message, "nack"):
            await super().nack(message, delay_s, reason, counted=counted)

    async def reject(self, message: ReceivedMessage, reason: str) -> None:
        with self._observer.settle(message, "reject"):
            await super().reject(message, reason)

    async def extend(self, message: ReceivedMessage, seconds: float) -> None:
        with self._observer.settle(message, "extend"):
            await super().extend(message, seconds)
