"""Every official client is checked against a standalone and a cluster of processes, and
through each front."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.processes import Server, cluster, standalone

SHORT = {  # the defaults of 10 s and 60 s would only take time
    "POPMQ_PROXY_INVISIBLE_MS_MIN": "1000",
    "POPMQ_PROXY_INVISIBLE_MS_DEFAULT": "3000",
}


@pytest.fixture(
    scope="module",
    params=["standalone-http2", "standalone-grpcio", "cluster-http2", "cluster-envoy"],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    kind, _, front = request.param.partition("-")
    start = standalone if kind == "standalone" else cluster
    with start(folder, env=SHORT, front=front) as running:
        yield running
