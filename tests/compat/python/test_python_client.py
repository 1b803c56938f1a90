"""The official Python client, unmodified, in an environment and process of its own."""

from collections.abc import Callable

import pytest
from compat.checks import CHECKS, Driver
from harness.processes import Server


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_python_client(
    check: Callable[[Driver, Server], None], driver: Driver, server: Server
) -> None:
    check(driver, server)
