"""One cluster for all tests of this folder; each leaves it whole."""

import secrets
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from compat.conftest import alone
from compat.golang.conftest import binary
from compat.python.conftest import driver as python_driver
from compat.python.conftest import home, python
from compose.cluster import DEPLOY, INSTALL, Cluster, started
from compose.webhook import Told, receiver
from harness.processes import free_port
from testcontainers.compose import DockerCompose

from popmq.connection import endpoints

__all__ = [  # fixtures
    "alone",
    "binary",
    "cluster",
    "docker",
    "home",
    "python",
    "python_driver",
    "told",
]

LOGS_SHOWN = 20_000
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
SHORT = str(DEPLOY.parent / "tests/compose/short.yml")


@pytest.fixture(scope="session")
def docker() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        pytest.fail(INSTALL, pytrace=False)


@pytest.fixture(scope="session")
def told() -> Iterator[Told]:
    """Of alerts, by the cluster's Alertmanager."""
    with receiver() as told:
        yield told


def named_apart(patch: pytest.MonkeyPatch) -> None:
    """From now on Compose has a project of its own, with images and ports of the tests."""
    patch.setenv("COMPOSE_PROJECT_NAME", f"popmq-test-{secrets.token_hex(4)}")
    for part in ("", "BALANCER_", "ALERTMANAGER_", "PIPELINES_"):
        name = f"POPMQ_{part}IMAGE"
        patch.setenv(name, name.lower().replace("_", "-").replace("image", "test"))
    for name in ("POPMQ_PORT", "POPMQ_CONSOLE_PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT"):
        patch.setenv(name, str(free_port()))
    # a connection for each client, as if each were a process: gRPC shares them within one
    patch.setattr(endpoints, "OPTIONS", [*endpoints.OPTIONS, OWN_CONNECTION])


@pytest.fixture(scope="session")
def cluster(docker: None, told: Told, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        named_apart(patch)
        patch.setenv("POPMQ_CREATE_ON_FIRST_USE", "true")
        patch.setenv("POPMQ_ALERT_WEBHOOK", f"http://host.docker.internal:{told.port}/")
        compose = DockerCompose(str(DEPLOY), ["docker-compose.yml", SHORT])
        everything = DockerCompose(
            str(DEPLOY),
            ["docker-compose.yml", "broker-c.yml"],
            profiles=["audit", "spark"],
        )
        try:
            yield started(compose)
            if request.session.testsfailed:
                print(compose.get_logs()[0][-LOGS_SHOWN:])
        finally:
            everything.stop()
