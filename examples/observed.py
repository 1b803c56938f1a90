"""Traces, metrics and logs of an application. Needs opentelemetry-sdk, and popmq[otel].

python examples/observed.py [ENDPOINT]
"""

import asyncio
import json
import logging
import sys

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from popmq import App, Client, ReceivedMessage, Retry
from popmq.log_fields import FIELDS
from popmq.otel import OpenTelemetry

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()  # a service exports by OTLP
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
telemetry = OpenTelemetry(tracer_provider=provider, meter_provider=MeterProvider([metrics]))
app = App(ENDPOINT, instrumentation=telemetry)
app.group("accounting", start="first")


class JsonLines(logging.Formatter):
    """One object a line, with what the record is about."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"level": record.levelname, "text": record.getMessage()}
        return json.dumps(line | {name: getattr(record, name, None) for name in FIELDS})


@app.handler("invoices", "accounting")
async def book(message: ReceivedMessage) -> None:
    if message.delivery_attempt == 1:
        raise Retry(0.2, "the ledger is closed")
    app.stop()


def depth(span: ReadableSpan, by_id: dict[int, ReadableSpan]) -> int:
    above = by_id.get(span.parent.span_id) if span.parent else None
    return 0 if above is None else 1 + depth(above, by_id)


async def main() -> None:
    logs = logging.StreamHandler()
    logs.setFormatter(JsonLines())
    logging.getLogger("popmq").addHandler(logs)
    async with Client(ENDPOINT, instrumentation=telemetry) as client:
        with provider.get_tracer("example").start_as_current_span("POST /invoices"):
            await client.producer().send("invoices", b"1", keys=["invoice-1"])
    await app.run()
    ended = sorted(spans.get_finished_spans(), key=lambda span: span.start_time or 0)
    by_id = {span.context.span_id: span for span in ended if span.context}
    for span in ended:
        error = (span.attributes or {}).get("error.type", "")
        print(f"{'   ' * depth(span, by_id)}{span.name} {error}".rstrip())


if __name__ == "__main__":
    asyncio.run(main())
