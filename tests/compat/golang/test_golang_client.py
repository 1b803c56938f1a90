"""The official Go client, unmodified; with TLS, which is its default, and without."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat.checks import CHECKS, Driver, check_round_trip, run
from harness.processes import Server

HERE = Path(__file__).parent

pytestmark = pytest.mark.golang


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.fail("go is missing: install Go 1.25 or newer")
    built = tmp_path_factory.mktemp("golang") / "driver"
    subprocess.run([go, "build", "-o", str(built), "."], cwd=HERE, check=True, timeout=600)
    return built


def _driver(binary: Path, *, tls: bool) -> Driver:
    def drive(scenario: str, server: Server, topic: str, group: str) -> Any:
        home = {"HOME": str(binary.parent)}  # the client writes its logs there
        env = {**os.environ, **home, "rocketmq.client.enableSsl": "true" if tls else "false"}
        endpoint = server.tls_endpoint if tls else server.endpoint
        return run([str(binary), scenario, endpoint, topic, group], env)

    return drive


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_golang_client(
    check: Callable[[Driver, Server], None], binary: Path, server: Server
) -> None:
    check(_driver(binary, tls=False), server)


def test_golang_client_with_tls(binary: Path, server: Server) -> None:
    check_round_trip(_driver(binary, tls=True), server)
