"""The programs in README.md and docs/sdk.md, as they are written there, before a fresh server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.page_programs import ENDPOINT, PageProgram, check_what_it_prints, programs_of
from harness.processes import Server, standalone

PROGRAMS = [
    program
    for program in programs_of("README.md", "docs/sdk.md")
    if "popmq_broker" not in program.text  # of pytest: tests/integration/test_testing.py
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    with standalone(tmp_path / "server") as running:
        yield running


def test_each_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) >= 9
    assert [str(one) for one in PROGRAMS if not one.prints or ENDPOINT not in one.text] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_it_prints_what_the_page_says(program: PageProgram, server: Server, tmp_path: Path) -> None:
    ends = "run_receiver_task" not in program.text
    check_what_it_prints(program, server, tmp_path, ends=ends)
