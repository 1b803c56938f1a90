"""Every official client is checked against a cluster of processes, and, with fewer checks, against
a standalone through each front and on two cores.

Each is a module, so that with several workers (-n 4 --dist loadscope) a server is started once."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from compat.guarded import GuardedCluster, guarded_cluster
from harness.processes import Server, cluster, standalone


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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """What most people run: two brokers, two proxies, and every setting as it is by default."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


FRONTS = {"http2": ("http2", 1), "grpcio": ("grpcio", 1), "cores": ("http2", 2)}
"""Of a standalone: its front, and the number of its processes."""


@pytest.fixture(scope="module", params=FRONTS)
def front(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A standalone, behind each front, and on two cores."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    front, cores = FRONTS[request.param]
    with standalone(folder, env=SHORT, front=front, cores=cores) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    """Two brokers and two proxies that ask who their clients are, and whether they may."""
    with guarded_cluster(tmp_path_factory.mktemp("guarded")) as running:
        yield running
