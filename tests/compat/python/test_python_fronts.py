"""The official Python client at each front."""

from collections.abc import Callable

import pytest
from compat.checks import FRONT_CHECKS, Driver
from harness.processes import Server


@pytest.mark.parametrize("check", FRONT_CHECKS, ids=lambda check: check.__name__)
def test_python_client(
    check: Callable[[Driver, Server], None], driver: Driver, front: Server
) -> None:
    check(driver, front)
