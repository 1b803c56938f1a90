"""The proxy's /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from popmq_proxy.sessions import Sessions

LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0)


class Metrics:
    def __init__(self, sessions: Sessions) -> None:
        self.registry = CollectorRegistry()
        self.rpc_seconds = Histogram(
            "popmq_rpc_seconds",
            "Time of an RPC, waiting polls included",
            ["method"],
            buckets=LATENCY_S,
            registry=self.registry,
        )
        self.rpc_status = Counter(
            "popmq_rpc_status", "RPCs by status code", ["method", "code"], registry=self.registry
        )
        self.rpcs_now = Gauge(
            "popmq_rpcs_in_progress", "RPCs under way", ["method"], registry=self.registry
        )
        clients = Gauge("popmq_clients", "Clients this proxy knows", registry=self.registry)
        clients.set_function(lambda: len(sessions))
