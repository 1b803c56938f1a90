"""A replica's part of /metrics: its role, and how its followers keep up."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from popmq_broker import metric_table as m
from popmq_internal.v1 import link_pb2 as link


class Described(Protocol):
    """A replica."""

    @property
    def broker(self) -> object | None:
        """While it serves clients."""
        ...

    def describe(self) -> link.ReplicaGroupReply: ...


def registry(broker: str, replicas: Sequence[Described]) -> CollectorRegistry:
    """`broker`: its name; `replicas`: the one that there is, as soon as there is one."""
    registry = CollectorRegistry()
    registry.register(ReplicaCollector(broker, replicas))
    return registry


class ReplicaCollector(Collector):
    def __init__(self, broker: str, replicas: Sequence[Described]) -> None:
        self._broker = broker
        self._replicas = replicas

    def collect(self) -> Iterable[Metric]:
        for replica in self._replicas:
            group = replica.describe()
            yield m.REPLICA_PRIMARY.many(
                {(self._broker, group.replica): int(replica.broker is not None)}
            )
            yield m.REPLICA_EPOCH.many({(self._broker,): group.epoch})
            yield m.REPLICA_LOG_END.many({(self._broker,): group.log_end})
            yield m.REPLICA_COMMIT_POINT.many({(self._broker,): group.commit_point})
            yield from self._group(group)

    def _group(self, group: link.ReplicaGroupReply) -> Iterable[Metric]:
        """What a primary alone knows; of another replica these have no rows."""
        leads = bool(group.members)
        in_sync = sum(one.role in ("primary", "in sync") for one in group.members)
        yield m.REPLICAS_IN_SYNC.many({(self._broker,): in_sync} if leads else {})
        yield m.REPLICAS_NEEDED.many({(self._broker,): group.min_in_sync} if leads else {})
        behind = {
            (self._broker, one.replica): one.behind_bytes
            for one in group.members
            if one.role not in ("primary", "silent")
        }
        yield m.REPLICA_BEHIND.many(behind)
