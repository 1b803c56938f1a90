"""The official Python client, unmodified, in an environment and process of its own."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat.checks import CHECKS, Driver, run
from harness.processes import Server

DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="session")
def driver(python: Path, home: Path) -> Driver:
    def drive(scenario: str, server: Server, topic: str, group: str) -> Any:
        env = {**os.environ, "HOME": str(home)}
        return run([str(python), str(DRIVER), scenario, server.endpoint, topic, group], env)

    return drive


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_python_client(
    check: Callable[[Driver, Server], None], driver: Driver, server: Server
) -> None:
    assert sys.version_info >= (3, 11)
    check(driver, server)
