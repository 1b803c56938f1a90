"""The official Java client at each front; with TLS, which is its default, and without."""

from collections.abc import Callable

import pytest
from compat.checks import FRONT_CHECKS, Driver, check_round_trip
from harness.processes import Server

pytestmark = pytest.mark.java


@pytest.mark.parametrize("check", FRONT_CHECKS, ids=lambda check: check.__name__)
def test_java_client(
    check: Callable[[Driver, Server], None], driver: Driver, front: Server
) -> None:
    check(driver, front)


def test_java_client_with_tls(driver_with_tls: Driver, front: Server) -> None:
    check_round_trip(driver_with_tls, front)
