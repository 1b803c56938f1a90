"""Each case of `make micro` runs, and measures something."""

from pathlib import Path

import pytest

from micro.__main__ import NAMES
from micro.cases import CASES
from micro.instructions import FUNCTION, Counter


def test_the_command_knows_every_case() -> None:
    assert list(NAMES) == list(CASES)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("sdk")])
async def test_a_case_measures(name: str, tmp_path: Path) -> None:
    async with CASES[name](tmp_path / "data") as case:
        assert await case.round(64) > 0


def test_counted_is_the_last_part_between_two_marks() -> None:
    counter = Counter()
    (out,) = (Path(word.partition("=")[2]) for word in counter.command if "out-file" in word)
    assert f"--dump-before={FUNCTION}" in counter.command
    try:
        for number, total in enumerate((900, 41, 800, 42), 1):
            out.with_name(f"out.{number}").write_text(f"events: Ir\ntotals: {total}\n")
        assert counter.last() == 42
    finally:
        counter.close()
    assert not out.parent.exists()
