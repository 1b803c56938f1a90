"""A metric is defined once: the page /metrics and the page docs/metrics.md are made of the same.

Names follow Prometheus's conventions: base units, `_total` behind counters (added by the client
library). Where RocketMQ has the figure, the name behind the prefix is RocketMQ's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from popmq_common.metrics.histogram import Histogram

Labels = tuple[str, ...]


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    """Without the `_total` of a counter."""
    kind: MetricKind
    text: str
    labels: Labels = ()
    rocketmq: str = ""
    """RocketMQ's name for it; empty: it has none."""

    def one(self, value: float) -> Metric:
        """The metric when it has no labels."""
        return self.many({(): value})

    def many(self, rows: Mapping[Any, float]) -> Metric:
        """A counter or gauge by the values of its labels."""
        made = CounterMetricFamily if self.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = made(self.name, self.text, labels=self.labels)
        for labels, value in rows.items():
            family.add_metric(labels, value)
        return family

    def spread(self, rows: Mapping[Any, Histogram]) -> Metric:
        """A histogram by the values of its labels."""
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for labels, histogram in rows.items():
            family.add_metric(labels, buckets=histogram.cumulative(), sum_value=histogram.total)
        return family


def _maker(kind: MetricKind) -> Callable[..., Definition]:
    def define(name: str, text: str, *labels: str, rocketmq: str = "") -> Definition:
        return Definition(name, kind, text, labels, rocketmq)

    return define


counter = _maker(MetricKind.COUNTER)
gauge = _maker(MetricKind.GAUGE)
histogram = _maker(MetricKind.HISTOGRAM)


def defined(names: Mapping[str, object]) -> tuple[Definition, ...]:
    """All definitions of a module, in its order: `defined(vars())` as its last line."""
    return tuple(found for found in names.values() if isinstance(found, Definition))


def by_name(rows: Mapping[str, float]) -> dict[Labels, float]:
    """Rows of one label."""
    return {(name,): value for name, value in rows.items()}


PROCESS = (
    counter("process_cpu_seconds", "Processor time of the process"),
    gauge("process_resident_memory_bytes", "Memory of the process, mapped files included"),
    gauge("process_virtual_memory_bytes", "Address space of the process"),
    gauge("process_start_time_seconds", "When it started, in seconds since 1970"),
    gauge("process_open_fds", "Open files and connections"),
    gauge("process_max_fds", "How many it may have"),
    gauge("popmq_build_info", "1; which PopMQ this is", "version"),
)
"""Of every service, by the client library and `metrics_http`."""
