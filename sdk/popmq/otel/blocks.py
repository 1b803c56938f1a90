"""The span and the measurements of each thing that a client does: `popmq.observer`'s blocks."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Self

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, Tracer

from popmq.errors import PopMQClientError
from popmq.message import Message, ReceivedMessage
from popmq.observer import Settlement
from popmq.otel import attributes as names
from popmq.otel.attributes import Attributes, Operation, error_type, of_operation
from popmq.otel.measures import Measures
from popmq.otel.trace_context import made_in, own_context, received_context, with_context
from popmq.send_receipt import SendReceipt

GIVEN = Context()
"""Kept with a message that a receive has counted: its handler does not count it again."""


class Kit(NamedTuple):
    """What the blocks of one client are made with."""

    tracer: Tracer
    measures: Measures
    propagator: TextMapPropagator
    server: Attributes
    """Of spans and measurements."""
    client: Attributes
    """Of spans alone: too many different values for measurements."""
    create_spans: bool


class _Doing:
    """One operation: what it is measured by, since when, and how it ended."""

    def __init__(self, kit: Kit, operation: Operation, topic: str, group: str = "") -> None:
        self.kit = kit
        self.measured: Attributes = {**kit.server, **of_operation(operation, topic, group)}
        self._name = f"{operation} {topic}"
        self._began_s = time.perf_counter()

    def span(
        self,
        kind: SpanKind,
        more: Attributes,
        links: Sequence[SpanContext | None],
        *,
        parent: Context | None = None,
        start_ns: int | None = None,
    ) -> Span:
        return self.kit.tracer.start_span(
            self._name,
            context=parent,
            kind=kind,
            attributes={**self.measured, **self.kit.client, **more},
            links=[Link(one) for one in links if one is not None],
            start_time=start_ns,
        )

    def ended(self, span: Span | None, error: BaseException | None, text: str = "") -> float:
        """Returns how long it took, in seconds."""
        took_s = time.perf_counter() - self._began_s
        if error is not None:
            self.measured[names.ERROR] = error_type(error)
        if span is not None:
            if error is not None:
                span.set_attribute(names.ERROR, error_type(error))
                span.set_status(StatusCode.ERROR, text or str(error))
            span.end()
        return took_s


class SendBlock:
    def __init__(
        self, kit: Kit, topic: str, messages: Sequence[Message], *, transaction: bool
    ) -> None:
        self._doing = _Doing(kit, "send", topic)
        self._topic = topic
        self.messages = messages
        self._transaction = transaction
        self._results: Sequence[SendReceipt | PopMQClientError] | None = None

    def __enter__(self) -> Self:
        kit, many = self._doing.kit, len(self.messages) > 1
        more: Attributes = {names.COUNT: len(self.messages)}
        if not many:
            more = names.of_sent(self.messages[0], _now_ms(), transaction=self._transaction)
        made = [(message, own_context(message, kit.propagator)) for message in self.messages]
        if many and kit.create_spans:
            made = [(message, one) if one else self._created(message) for message, one in made]
        origins = [one for _, one in made]
        kind = SpanKind.CLIENT if all(origins) else SpanKind.PRODUCER
        self._span = self._doing.span(kind, more, origins)
        here = trace.set_span_in_context(self._span)
        self.messages = [
            message if one else with_context(message, here, kit.propagator) for message, one in made
        ]
        return self

    def _created(self, message: Message) -> tuple[Message, SpanContext | None]:
        """A span of its own for a message of many: consumers come from this very message."""
        kit = self._doing.kit
        more = names.of_sent(message, _now_ms(), transaction=False)
        attributes = of_operation("create", self._topic)
        span = kit.tracer.start_span(
            f"create {self._topic}",
            kind=SpanKind.PRODUCER,
            attributes={**kit.server, **kit.client, **attributes, **more},
        )
        span.end()
        here = trace.set_span_in_context(span)
        return with_context(message, here, kit.propagator), made_in(here)

    def answered(self, results: Sequence[SendReceipt | PopMQClientError]) -> None:
        self._results = results

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        errors = [one for one in self._results or () if isinstance(one, PopMQClientError)]
        text = ""
        if errors and error is None:
            error = errors[0]
            if len(self.messages) > 1:
                text = f"{len(errors)} of {len(self.messages)} messages: {error}"
        if len(self.messages) == 1 and self._results and not errors:
            (receipt,) = self._results
            assert isinstance(receipt, SendReceipt)
            self._span.set_attribute(names.MESSAGE_ID, receipt.message_id)
        measures, measured = self._doing.kit.measures, dict(self._doing.measured)
        for kind_of_error, count in self._ends(error).items():
            more = {names.ERROR: kind_of_error} if kind_of_error else {}
            measures.sent.add(count, {**measured, **more})
        took_s = self._doing.ended(self._span, error, text)
        measures.operation_s.record(took_s, self._doing.measured)

    def _ends(self, error: BaseException | None) -> Counter[str]:
        """How often each error came; "" is none."""
        if self._results is None:
            return Counter({error_type(error) if error else "": len(self.messages)})
        return Counter(
            error_type(one) if isinstance(one, PopMQClientError) else "" for one in self._results
        )


class ReceiveBlock:
    """Its span is made at the end, when it is known what it links to; none if nothing came."""

    def __init__(self, kit: Kit, topic: str, group: str) -> None:
        self._doing = _Doing(kit, "receive", topic, group)
        self._began_ns = time.time_ns()
        self._found: Sequence[ReceivedMessage] = ()

    def __enter__(self) -> Self:
        return self

    def found(self, messages: Sequence[ReceivedMessage]) -> None:
        self._found = messages
        for message in messages:
            message.observed = GIVEN

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        doing, kit, span = self._doing, self._doing.kit, None
        if self._found:
            kit.measures.consumed.add(len(self._found), doing.measured)
        if self._found or error is not None:
            made = [made_in(received_context(one, kit.propagator)) for one in self._found]
            more: Attributes = {names.COUNT: len(self._found)}
            span = doing.span(SpanKind.CLIENT, more, made, start_ns=self._began_ns)
        took_s = doing.ended(span, error)
        kit.measures.operation_s.record(took_s, doing.measured)


class ProcessBlock:
    """What the handler does is part of its span."""

    def __init__(self, kit: Kit, messages: Sequence[ReceivedMessage]) -> None:
        self._doing = _Doing(kit, "process", messages[0].topic, messages[0].group)
        self._messages = messages
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        doing, kit, messages = self._doing, self._doing.kit, self._messages
        origins = [received_context(message, kit.propagator) for message in messages]
        around = contexts.get_current()
        parent = around
        more: Attributes = {names.COUNT: len(messages)}
        if len(messages) == 1:
            more = names.of_received(messages[0])
            if made_in(around) is None:
                parent = origins[0]
        links = [made_in(origin) for origin in origins]
        self._span = doing.span(SpanKind.CONSUMER, more, links, parent=parent)
        inside = trace.set_span_in_context(self._span, parent)
        self._token = contexts.attach(inside)
        given = sum(message.observed is None for message in messages)
        if given:
            kit.measures.consumed.add(given, doing.measured)
        for message in messages:
            message.observed = inside
        return self

    def ended(self, error: BaseException | None) -> None:
        self._error = error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        contexts.detach(self._token)
        error = error or self._error
        if isinstance(error, Exception):
            self._span.record_exception(error)
        took_s = self._doing.ended(self._span, error)
        self._doing.kit.measures.process_s.record(took_s, self._doing.measured)


class SettleBlock:
    """Under the span around it, or else under that of the message's handler."""

    def __init__(self, kit: Kit, message: ReceivedMessage, how: Settlement) -> None:
        self._doing = _Doing(kit, how, message.topic, message.group)
        self._message = message

    def __enter__(self) -> Self:
        message, parent = self._message, contexts.get_current()
        if made_in(parent) is None and isinstance(message.observed, Context):
            parent = message.observed
        origin = made_in(received_context(message, self._doing.kit.propagator))
        more = names.of_received(message)
        self._span = self._doing.span(SpanKind.CLIENT, more, [origin], parent=parent)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        took_s = self._doing.ended(self._span, error)
        self._doing.kit.measures.operation_s.record(took_s, self._doing.measured)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
