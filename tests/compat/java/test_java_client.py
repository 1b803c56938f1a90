"""The official Java client, unmodified."""

from collections.abc import Callable

import pytest
from compat.checks import CHECKS, Driver
from harness.processes import Server

pytestmark = pytest.mark.java


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_java_client(
    check: Callable[[Driver, Server], None], driver: Driver, server: Server
) -> None:
    check(driver, server)
