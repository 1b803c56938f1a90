"""Each kind of finding that docs/audit.md names has its advice."""

import re
from pathlib import Path

from popmq_pipelines.cluster import advice
from popmq_pipelines.cluster.advice import ADVICE, UNKNOWN, steps

PAGE = (Path(__file__).parents[4] / "docs/audit.md").read_text()


def told() -> set[str]:
    """The kinds in the first column of the page's tables of findings."""
    kinds = set()
    for table in re.findall(r"\| finding \| means \|\n\| --- \| --- \|\n((?:\|.*\n)+)", PAGE):
        for line in table.splitlines():
            cell = line.split("|")[1].strip()
            whole = cell if cell in ADVICE else None  # "sent, and others stored" is one
            kinds.update([whole] if whole else re.split(", ", cell))
    return kinds


def test_every_kind_has_advice_and_no_other() -> None:
    assert len(told()) > 40
    assert told() == set(ADVICE)


def test_steps_are_one_for_each_advice_and_the_most_urgent_first() -> None:
    found = steps(["clock went back", "delivered early", "message missing", "timer overdue", "new"])
    assert [step.because for step in found] == [
        ["message missing"],
        ["delivered early", "timer overdue"],
        ["clock went back"],
        ["new"],
    ]
    assert (found[0].what, found[-1].what) == (advice.LOST, UNKNOWN)
