"""A replica's part of /metrics: its role, and how its followers keep up."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from popmq_broker import metric_table as m
from popmq_broker.engine.replication.replica import Replica


def registry(replicas: Sequence[Replica]) -> CollectorRegistry:
    """`replicas`: the one that there is, as soon as there is one."""
    registry = CollectorRegistry()
    registry.register(ReplicaCollector(replicas))
    return registry


class ReplicaCollector(Collector):
    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas

    def collect(self) -> Iterable[Metric]:
        for replica in self._replicas:
            group = replica.describe()
            yield m.REPLICA_PRIMARY.one(int(replica.broker is not None))
            yield m.REPLICA_EPOCH.one(group.epoch)
            yield m.REPLICA_LOG_END.one(group.log_end)
            yield m.REPLICA_COMMIT_POINT.one(group.commit_point)
            in_sync = [one for one in group.members if one.role in ("primary", "in sync")]
            yield m.REPLICAS_IN_SYNC.one(len(in_sync))
            yield m.REPLICAS_NEEDED.one(group.min_in_sync if group.members else 0)
            behind = {
                (one.replica,): one.behind_bytes
                for one in group.members
                if one.role not in ("primary", "silent")
            }
            yield m.REPLICA_BEHIND.many(behind)
