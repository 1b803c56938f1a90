"""Each case of `make micro` runs, and measures something."""

from pathlib import Path

import pytest

from micro.__main__ import NAMES
from micro.cases import CASES


def test_the_command_knows_every_case() -> None:
    assert list(NAMES) == list(CASES)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("sdk")])
async def test_a_case_measures(name: str, tmp_path: Path) -> None:
    async with CASES[name](tmp_path / "data") as case:
        assert await case.round(64) > 0
