"""A cluster with two proxies, and an edge before them: HAProxy, then Envoy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.edges import Edge, before
from harness.processes import cluster

ENV = {
    "POPMQ_PROXY_POLL_MS_MAX": "120000",
    "POPMQ_PROXY_INVISIBLE_MS_MIN": "1000",
}


@pytest.fixture(scope="module", params=["haproxy", "envoy"])
def edge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Edge]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    with (
        cluster(folder, ENV, brokers=2, proxies=2) as server,
        before(server, request.param, folder) as made,
    ):
        yield made
