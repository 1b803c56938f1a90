"""A real engine, and a real proxy before it, for every trap."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import QUICK_DISK, EngineDriver
from harness.proxy import ProxyDriver


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Quick: a crash is simulated, so nothing need reach a disk."""
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
        yield Path(folder)


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
