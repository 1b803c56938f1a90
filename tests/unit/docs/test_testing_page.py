"""docs/testing.md says which test finds what: each test and each trap is there."""

import re
from pathlib import Path

import pytest
from sim.faults import FAULTS

TESTS = Path(__file__).resolve().parents[2]
PAGE = (TESTS.parent / "docs" / "testing.md").read_text()
PLACES = [
    path.relative_to(TESTS).as_posix()
    for ending in ("*.py", "*.txt")
    for path in TESTS.rglob(ending)
]
NAMED = sorted(set(re.findall(r"`([\w./-]+\.(?:py|txt))`", PAGE)))
TRAP = re.compile(r"^\| (T\d\d) \|(.*)$", re.M)


def places(named: str) -> list[str]:
    """Which tests a name or the end of a path can mean."""
    wanted = "/" + named.removeprefix("tests/")
    return [place for place in PLACES if f"/{place}".endswith(wanted)]


def is_of_the_product(named: str) -> bool:
    """Programs beside the tests, and modules of the services, by the end of their path."""
    roots = (TESTS.parent, *(TESTS.parent / "services").glob("*/popmq_*"))
    return any((root / named).is_file() for root in roots)


@pytest.mark.parametrize("named", NAMED)
def test_what_the_page_names_exists(named: str) -> None:
    assert places(named) or is_of_the_product(named)


def test_a_test_that_is_gone_is_found() -> None:
    assert len(NAMED) > 50
    assert places("traps/test_lost.py") == ["traps/test_lost.py"]
    assert not places("traps/test_no_such.py")
    assert not is_of_the_product("no_such.py")


@pytest.mark.parametrize("number", [f"T{number:02}" for number in range(1, 71)])
def test_each_trap_has_its_row_and_its_test(number: str) -> None:
    """In one of the files that the row names: as a function, a scenario, or in words."""
    (row,) = [row for found, row in TRAP.findall(PAGE) if found == number]
    tests = [places(named) for named in re.findall(r"`([\w./-]+\.(?:py|txt))`", row)]
    assert all(len(found) == 1 for found in tests), "a row names a file without ambiguity"
    said = re.compile(rf"test_{number.lower()}_|\b{number}\b|^{number.lower()}_")
    assert any(said.search(text) for (place,) in tests for text in words(place))


def words(place: str) -> tuple[str, str]:
    """A file's name and text."""
    path = TESTS / place
    return path.name, path.read_text()


def test_the_page_lists_as_many_faults_as_the_simulation_finds() -> None:
    """A fault that is added or taken away needs a row: make faults prints it."""
    table = PAGE.partition("| with this fault | invariant | found within steps |")[2]
    rows = table.partition("\n\n")[0].strip().splitlines()[1:]
    assert len(rows) == len(FAULTS)
