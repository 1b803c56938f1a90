"""A broker's engine on a clock moved by hand, with no topic yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    yield made
    made.close()
