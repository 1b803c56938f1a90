"""A real engine, and a real proxy before it, for every trap."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.proxy import ProxyDriver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    yield made
    made.close()


@pytest.fixture
def proxy(driver: EngineDriver) -> ProxyDriver:
    """Before an engine with the topic and the group of all traps."""
    driver.make()
    return ProxyDriver(driver)
