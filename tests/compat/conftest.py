"""Every official client is checked against a standalone and a cluster of processes, and
through each front."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from harness.processes import Server, cluster, standalone


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (-n 4 --dist loadgroup) each server is started by one of them."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            item.add_marker(pytest.mark.xdist_group(str(item.callspec.params.get("server"))))


@pytest.fixture(scope="session")
def alone() -> Callable[[], AbstractContextManager[None]]:
    """Inside, no other worker installs a client."""

    @contextmanager
    def locked() -> Iterator[None]:
        with open(Path(__file__)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    return locked


SHORT = {  # the defaults of 10 s and 60 s would only take time
    "POPMQ_PROXY_INVISIBLE_MS_MIN": "1000",
    "POPMQ_PROXY_INVISIBLE_MS_DEFAULT": "3000",
    "POPMQ_BROKER_TRANSACTION_IMMUNITY_MS": "2000",
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
