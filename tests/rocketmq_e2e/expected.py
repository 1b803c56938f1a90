"""What the suite is expected to say, and a table of what it said."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketmq_e2e.suite import PROFILES, Outcome, Outcomes

FILE: Final = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True, slots=True)
class Expected:
    test_count: int
    """Tests that run at the pinned commit."""
    differences: Mapping[str, str]
    """Tests that PopMQ fails on purpose, CLASS.TEST, and why."""


def load(path: Path = FILE) -> Expected:
    document = tomllib.loads(path.read_text())
    return Expected(document["test_count"], document["differences"])


def wrong(kind: str, found: Outcomes, expected: Expected, *, is_whole: bool) -> list[str]:
    """What a run says that is not expected; `is_whole`: all tests were asked for."""
    lines = [
        f"{kind}: {test} failed: {'; '.join(outcome.said)}"
        for test, outcome in found.items()
        if not outcome.passed and test not in expected.differences
    ]
    lines += [
        f"{kind}: {test} passes; take it out of {FILE.name}"
        for test in expected.differences
        if test in found and found[test].passed
    ]
    if is_whole and len(found) != expected.test_count:
        lines.append(f"{kind}: {len(found)} tests ran, not {expected.test_count}")
    return lines


def table(runs: Mapping[str, Outcomes], expected: Expected) -> str:
    """In Markdown: how many passed, then each test that failed in a try."""
    kinds = [kind for kind in PROFILES if kind in runs]
    rows = [
        "| run | tests | passed | failed as expected | failed |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for kind in kinds:
        failed = [test for test, outcome in runs[kind].items() if not outcome.passed]
        known = sum(test in expected.differences for test in failed)
        count = len(runs[kind])
        rows.append(
            f"| {kind} | {count} | {count - len(failed)} | {known} | {len(failed) - known} |"
        )
    shown = sorted({test for found in runs.values() for test in found if found[test].said})
    if not shown:
        return "\n".join(rows)
    rows += ["", f"| test | {' | '.join(kinds)} | expected, because |"]
    rows.append(f"| --- | {' | '.join('---' for _ in kinds)} | --- |")
    for test in shown:
        cells = [_cell(runs[kind].get(test)) for kind in kinds]
        rows.append(f"| {test} | {' | '.join(cells)} | {expected.differences.get(test, 'no')} |")
    return "\n".join(rows)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if not outcome.passed:
        return "failed"
    return "passed at the second try" if outcome.said else "passed"
