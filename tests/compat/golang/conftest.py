"""The official Go client, built once."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from compat.checks import Driver, run
from compat.session import Session, session
from harness.processes import Server

Alone = Callable[[], AbstractContextManager[None]]
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def binary(alone: Alone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.fail("go is missing: install Go 1.25 or newer")
    built = tmp_path_factory.mktemp("golang") / "driver"
    with alone():
        subprocess.run([go, "build", "-o", str(built), "."], cwd=HERE, check=True, timeout=600)
    return built


def _environment(binary: Path, *, tls: bool) -> dict[str, str]:
    home = {"HOME": str(binary.parent)}  # the client writes its logs there
    return {**os.environ, **home, "rocketmq.client.enableSsl": "true" if tls else "false"}


def golang_driver(binary: Path, *, tls: bool) -> Driver:
    def drive(scenario: str, server: Server, topic: str, group: str) -> Any:
        env = _environment(binary, tls=tls)
        ends = [server.tls_endpoint] * 2 if tls else [server.endpoint, server.other_endpoint]
        return run([str(binary), scenario, *ends, topic, group], env)

    return drive


@pytest.fixture(scope="session")
def driver(binary: Path) -> Driver:
    return golang_driver(binary, tls=False)


@pytest.fixture(scope="session")
def driver_with_tls(binary: Path) -> Driver:
    return golang_driver(binary, tls=True)


@pytest.fixture(scope="module")
def signed(binary: Path) -> Iterator[Session]:
    log, env = binary.parent / "signed.log", _environment(binary, tls=False)
    with session([str(binary), "signed"], log, env) as running:
        yield running
