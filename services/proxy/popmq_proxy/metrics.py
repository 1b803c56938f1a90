"""The proxy's /metrics: counted as plain numbers, put into Prometheus's form at a scrape."""

import time
from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from popmq_common.histogram import Histogram
from popmq_proxy.sessions import Sessions

RPC_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0)


class RpcStats:
    """One RPC's figures."""

    def __init__(self) -> None:
        self.seconds = Histogram(RPC_S)
        self.in_progress = 0
        self.codes: Counter[int] = Counter()

    def begin(self) -> float:
        self.in_progress += 1
        return time.perf_counter()

    def undo(self) -> None:
        """It is begun anew, by somebody who counts it."""
        self.in_progress -= 1

    def end(self, began_s: float, code: int | None) -> None:
        """`code`: the status the client got, None when it got none."""
        self.in_progress -= 1
        self.seconds.observe(time.perf_counter() - began_s)
        if code is not None:
            self.codes[code] += 1


class Metrics(Collector):
    def __init__(self, sessions: Sessions) -> None:
        self.registry = CollectorRegistry()
        self.rpcs: dict[str, RpcStats] = {}
        self._sessions = sessions
        self.registry.register(self)

    def rpc(self, name: str) -> RpcStats:
        return self.rpcs.setdefault(name, RpcStats())

    def collect(self) -> Iterable[Metric]:
        seconds = HistogramMetricFamily(
            "popmq_rpc_seconds", "Time of an RPC, waiting polls included", labels=["method"]
        )
        status = CounterMetricFamily(
            "popmq_rpc_status", "RPCs by status code", labels=["method", "code"]
        )
        now = GaugeMetricFamily("popmq_rpcs_in_progress", "RPCs under way", labels=["method"])
        for name, stats in self.rpcs.items():
            buckets = stats.seconds.cumulative()
            seconds.add_metric([name], buckets=buckets, sum_value=stats.seconds.total)
            now.add_metric([name], stats.in_progress)
            for code, count in list(stats.codes.items()):
                status.add_metric([name, str(code)], count)
        yield from (seconds, status, now)
        yield GaugeMetricFamily("popmq_clients", "Clients this proxy knows", len(self._sessions))
