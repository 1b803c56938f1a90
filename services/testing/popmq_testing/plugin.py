"""The pytest plugin: the fixture `popmq_broker`. It is loaded in every test run where popmq is
installed, so nothing is imported before the fixture is used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from popmq.testing import PopmqBroker


@pytest.fixture
def popmq_broker() -> "Iterator[PopmqBroker]":
    """A real PopMQ for this test, on a clock that stands still until it is moved."""
    from popmq.testing import PopmqBroker

    with PopmqBroker() as broker:
        yield broker
