"""Where a message comes from: the context of the span that made it, in its properties.

A sender writes it as the application's propagator does, which is `traceparent` and `tracestate` of
W3C Trace Context by default. Clients of other languages with OpenTelemetry read and write the same
properties. The official C++ client writes its traceparent into the protocol's own field instead.
"""

from collections.abc import Mapping
from dataclasses import replace

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import SpanContext

from popmq.message import Message, ReceivedMessage

TRACEPARENT = "traceparent"


def with_context(message: Message, context: Context, propagator: TextMapPropagator) -> Message:
    """The same message, made there."""
    carrier: dict[str, str] = {}
    propagator.inject(carrier, context)
    if not carrier:  # nothing is recorded, and nothing was passed on
        return message
    return replace(message, properties={**message.properties, **carrier})


def own_context(message: Message, propagator: TextMapPropagator) -> SpanContext | None:
    """What the application itself has put into it, as an outbox does."""
    return made_in(extracted(message.properties, propagator)) if message.properties else None


def received_context(message: ReceivedMessage, propagator: TextMapPropagator) -> Context:
    carrier: Mapping[str, str] = message.properties
    if message.trace_context and TRACEPARENT not in carrier:
        carrier = {**carrier, TRACEPARENT: message.trace_context}
    return extracted(carrier, propagator)


def extracted(carrier: Mapping[str, str], propagator: TextMapPropagator) -> Context:
    return propagator.extract(carrier, Context())


def made_in(context: Context) -> SpanContext | None:
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None
