"""The official Node client, unmodified."""

from collections.abc import Callable

import pytest
from compat.checks import CHECKS, Driver
from harness.processes import Server

pytestmark = pytest.mark.node


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_node_client(
    check: Callable[[Driver, Server], None], driver: Driver, server: Server
) -> None:
    check(driver, server)
