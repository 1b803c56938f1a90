"""Where a replica's log is committed, as the torture reads it from the page of metrics."""

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest
from torture.campaign import commit_point_on

from popmq_broker import replica_metrics
from popmq_internal.v1 import link_pb2 as link


def test_the_commit_point_is_read_from_a_replicas_own_page() -> None:
    told = link.ReplicaGroupReply(replica="a2", role="following", epoch=3, commit_point=12345)
    replica: Any = SimpleNamespace(broker=None, describe=lambda: told)
    page = generate_latest(replica_metrics.registry("broker-a", [replica])).decode()
    assert commit_point_on(page) == 12345


def test_a_page_without_one_is_not_taken_for_nothing_committed() -> None:
    with pytest.raises(LookupError):
        commit_point_on("popmq_replica_epoch 3\n")
