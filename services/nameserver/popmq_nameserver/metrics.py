"""A nameserver's /metrics. docs/metrics.md is made of the table."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from popmq_common.metrics.metric import by_name, counter, defined, gauge
from popmq_nameserver.core.route_table import RouteTable

CALLS = counter("popmq_nameserver_calls", "Calls of brokers and proxies, by kind", "call")
EXPIRED = counter(
    "popmq_nameserver_expired", "Brokers removed from the routes because they sent no heartbeat"
)
REFUSED = counter(
    "popmq_nameserver_refused",
    "Registrations refused because a newer process has the broker's name",
)
UNPROVEN = counter(
    "popmq_nameserver_unproven", "Calls refused because they did not prove the link's secret"
)
BROKERS = gauge("popmq_nameserver_brokers", "Registered brokers")
TOPICS = gauge("popmq_nameserver_topics", "Topics with a route")

ALL = defined(vars())


class NameserverMetrics(Collector):
    def __init__(self, table: RouteTable) -> None:
        self.calls: Counter[str] = Counter()
        self.expired = 0
        self.refused = 0
        self.unproven = 0
        self.registry = CollectorRegistry()
        self._table = table
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        yield CALLS.many(by_name(self.calls))
        yield EXPIRED.one(self.expired)
        yield REFUSED.one(self.refused)
        yield UNPROVEN.one(self.unproven)
        yield BROKERS.one(len(self._table.brokers()))
        yield TOPICS.one(self._table.topic_count())
