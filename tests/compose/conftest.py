"""One cluster for all tests of this folder; each leaves it whole."""

import secrets
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from compose.cluster import DEPLOY, INSTALL, Cluster
from harness.processes import free_port
from testcontainers.compose import DockerCompose

LOGS_SHOWN = 20_000


@pytest.fixture(scope="session")
def docker() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        pytest.fail(INSTALL, pytrace=False)


@pytest.fixture(scope="session")
def cluster(docker: None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPOSE_PROJECT_NAME", f"popmq-test-{secrets.token_hex(4)}")
        patch.setenv("POPMQ_IMAGE", "popmq-test")
        patch.setenv("POPMQ_PIPELINES_IMAGE", "popmq-pipelines-test")
        patch.setenv("POPMQ_LINK_SECRET", secrets.token_hex(16))
        for name in ("POPMQ_PORT_1", "POPMQ_PORT_2", "PROMETHEUS_PORT"):
            patch.setenv(name, str(free_port()))
        compose = DockerCompose(str(DEPLOY), "docker-compose.yml", build=True, wait=True)
        running = Cluster(compose)
        try:
            with compose:
                yield running
                if request.session.testsfailed:
                    print(compose.get_logs()[0][-LOGS_SHOWN:])
        finally:
            running.compose_command("--profile", "audit", "down", "--volumes")
