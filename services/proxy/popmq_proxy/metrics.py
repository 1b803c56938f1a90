"""The proxy's /metrics: counted as plain numbers, put into Prometheus's form at a scrape."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from popmq_common.metrics.histogram import Histogram
from popmq_common.metrics.metric import Definition
from popmq_proxy import metric_table as m
from popmq_proxy.sessions import Sessions

RPC_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0)
FAULTS_FROM: Final = 50_000
"""Status codes from here on are the server's own faults,"""
NOT_IMPLEMENTED: Final = 50_101
"""but for this one."""


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


class ProxyMetrics(Collector):
    def __init__(self, sessions: Sessions) -> None:
        self.registry = CollectorRegistry()
        self.rpcs: dict[str, RpcStats] = {}
        self._gauges: dict[Definition, Callable[[], Mapping[Any, float]]] = {}
        self.refusals = 0
        self.show(m.CLIENTS, lambda: {(): len(sessions)})
        self.registry.register(self)

    def rpc(self, name: str) -> RpcStats:
        return self.rpcs.setdefault(name, RpcStats())

    def show(self, definition: Definition, read: Callable[[], Mapping[Any, float]]) -> None:
        """A gauge of another part of the proxy, read at each scrape."""
        self._gauges[definition] = read

    def count_refusal(self) -> None:
        self.refusals += 1

    def totals(self) -> tuple[int, int]:
        """(RPCs that were answered, and how many of them by the server's fault)."""
        codes: Counter[int] = Counter()
        for stats in self.rpcs.values():
            codes.update(stats.codes)
        failed = (n for code, n in codes.items() if code >= FAULTS_FROM and code != NOT_IMPLEMENTED)
        return codes.total(), sum(failed)

    def collect(self) -> Iterable[Metric]:
        rpcs = list(self.rpcs.items())
        yield m.RPC.spread({(name,): stats.seconds for name, stats in rpcs})
        yield m.RPC_STATUS.many(
            {
                (name, str(code)): count
                for name, stats in rpcs
                for code, count in list(stats.codes.items())
            }
        )
        yield m.RPCS_NOW.many({(name,): stats.in_progress for name, stats in rpcs})
        yield m.REFUSALS.many({(): self.refusals})
        for definition, read in self._gauges.items():
            yield definition.many(read())
