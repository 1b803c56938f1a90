"""What OpenTelemetry was told, in memory."""

from collections.abc import Mapping
from typing import Any, cast

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from popmq.otel import OpenTelemetry


class Telling:
    """An instrumentation with providers of its own: nothing of it is global."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter_provider = MeterProvider([self._reader])
        self.otel = OpenTelemetry(
            tracer_provider=self.tracer_provider,
            meter_provider=self.meter_provider,
            propagator=TraceContextTextMapPropagator(),
            **options,
        )

    @property
    def names(self) -> list[str]:
        """Of the spans that have ended, in that order."""
        return [span.name for span in self._exporter.get_finished_spans()]

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def measured(self, name: str) -> dict[tuple[str, str], float]:
        """(operation, error type or "") → sum of a counter, or how many a histogram has counted."""
        data = self._reader.get_metrics_data()
        found: dict[tuple[str, str], float] = {}
        if data is None:
            return found
        for point in (
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ):
            about = cast(Mapping[str, str], point.attributes)
            key = about["messaging.operation.name"], about.get("error.type", "")
            count = point.value if isinstance(point, NumberDataPoint) else point.count
            found[key] = found.get(key, 0) + float(count)
        return found


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def context_id(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent_id(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def link_ids(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]
