"""`python -m commits BEFORE`: this commit beside an earlier one, in turns."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from commits import checkout, table
from compare import prerequisites, results
from compare.command import BENCH, PERFORMANCE, ROOT
from compare.failure import BenchFailure, status_of
from compare.progress import Progress
from compare.record import Record
from compare.rounds import Bench, Plan
from compare.servers import Tools
from compare.systems import EARLIER, Case
from compare.workloads import ROWS, Length, chosen

NOW, THEN = Case("popmq", "sync"), Case(EARLIER, "sync")
SLOWER = 1
WARMUP_S = 5.0
ROW_WARMUP_S = 0.3
PAGE = PERFORMANCE / "commits.md"
ENVIRONMENTS = ROOT / ".venv-commits"


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    return status_of("commits", lambda: _run(options))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="commits", description=__doc__)
    made.add_argument("before", help="the earlier commit")
    made.add_argument("--rows", nargs="*", default=[], help=f"of {', '.join(ROWS)}")
    made.add_argument("--turns", type=int, default=20, help="of each, at each row")
    made.add_argument("--seconds", type=float, default=1.5, help="of a turn")
    made.add_argument("--messages", type=int, default=20_000, help="backlog of the row receive")
    made.add_argument("--python", default=sys.executable, help="that runs the servers")
    made.add_argument("--loadgen", type=Path, default=BENCH / "loadgen/loadgen")
    made.add_argument("--fail-above", type=float, metavar="RATIO", help="of CPU time: exit 1")
    made.add_argument("--write", action="store_true", help=f"a line in {PAGE.relative_to(ROOT)}")
    return made


def _run(options: argparse.Namespace) -> int:
    if options.write and not checkout.is_clean():
        raise BenchFailure("the checkout has changes: commit them, so that the line names them")
    now, before = checkout.short_name("HEAD"), checkout.short_name(options.before)
    work = BENCH / "run"
    popmq, earlier = (
        checkout.installed(one, ENVIRONMENTS, options.python) for one in (now, before)
    )
    loadgen, anchor = options.loadgen.absolute(), BENCH / "anchor/anchor.sh"
    tools = Tools(popmq, popmq, loadgen, anchor, None, earlier=earlier)
    plan = Plan(
        cases=[NOW, THEN],
        rows=chosen(options.rows),
        rounds=1,
        length=Length(options.seconds, ROW_WARMUP_S, options.messages),
        warmup_s={False: WARMUP_S},
        turns=options.turns,
    )
    prerequisites.check(tools, plan.cases, work, plot=False)
    record = Record(started=datetime.now(UTC).isoformat(timespec="seconds"))
    print(f"{now} beside {before}: {plan.estimate_s() / 60:.0f} minutes", file=sys.stderr)
    Bench(plan, tools, work, record, lambda: None, Progress(plan.estimate_s())).run()
    return _tell(options, record, now, before)


def _tell(options: argparse.Namespace, record: Record, now: str, before: str) -> int:
    summary = results.summarize(record)
    if summary.failures:
        raise BenchFailure("; ".join(summary.failures))
    rows = summary.rows
    pairs = {
        name: (rows[NOW, name], rows[THEN, name])
        for name in ROWS
        if (NOW, name) in rows and (THEN, name) in rows
    }
    found = table.changes(pairs)
    print(f"{now} beside {before}, CPU time of all servers per message:\n{table.text(found)}")
    if options.write:
        machine = _machine(prerequisites.machine())
        date = record.started[:10]
        with PAGE.open("a", encoding="utf-8") as page:
            page.write(table.line(found, date=date, commit=now, before=before, machine=machine))
    limit = options.fail_above
    return SLOWER if limit and any(one.cpu_ratio > limit for one in found) else 0


def _machine(found: dict[str, Any]) -> str:
    return f"{found['processor']}, {found['cores']} cores"
