"""Each case of `make micro` runs, and measures something."""

from pathlib import Path

import pytest

from micro.__main__ import NAMES
from micro.bytecodes import BytecodeCounter, verdict
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


def twice(number: int) -> int:
    return number + number


def test_bytecodes_between_two_marks_are_counted_by_functions() -> None:
    counter = BytecodeCounter()
    taken = []
    for times in (1, 3):
        counter.at_mark()
        for _ in range(times):
            twice(1)
        counter.at_mark()
        twice(1)
        taken.append({name.partition(" ")[2]: count for name, count in counter.take().items()})
    assert taken[0]["twice"] > 0
    assert taken[1]["twice"] == 3 * taken[0]["twice"]
    assert counter.take() == {}


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (1_000, 1_000, ""),
        (1_040, 1_000, ""),
        (1_060, 1_000, "more"),
        (1_250, 1_000, "more"),
        (1_251, 1_000, "FAILED: above 1.25 times"),
        (900, 1_000, "less: record it"),
    ],
)
def test_what_is_said_of_a_change(now: int, before: int, said: str) -> None:
    assert verdict(now, before) == said


def test_a_case_that_is_not_recorded_fails() -> None:
    assert verdict(1, None).startswith("FAILED: not recorded")
