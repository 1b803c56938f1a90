"""The pages of metrics of all workers as one: each row says of which shard it is."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

LABEL: Final = "shard"


def one_page(pages: Mapping[int, str]) -> bytes:
    """`pages`: shard number → its page, in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Joined(joined(pages)))
    return generate_latest(registry)


def joined(pages: Mapping[int, str]) -> list[Metric]:
    families: dict[str, Metric] = {}
    for number, page in sorted(pages.items()):
        for family in text_string_to_metric_families(page):
            one = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            one.samples.extend(
                sample._replace(labels={**sample.labels, LABEL: str(number)})
                for sample in family.samples
            )
    return list(families.values())


class _Joined(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
