"""The command line: options, what they mean for the plan, and what is written at the end."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from compare import prerequisites, record, report, results
from compare.failure import FAILED, BenchFailure, status_of
from compare.progress import Progress, spoken
from compare.rounds import Bench, Plan
from compare.servers import Tools
from compare.systems import DEFAULT_CASES, FLUSHES, FULL_CASES, SYSTEMS, Case
from compare.workloads import ROWS, Length, chosen

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
PERFORMANCE = ROOT / "docs" / "performance"

MISSED = 1
"""Exit status: a target was missed (with --check)."""


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    return status_of("bench", lambda: _run(options))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="compare", description="PopMQ and Apache RocketMQ in turn on the same cores."
    )
    names, rows = ", ".join(SYSTEMS), ", ".join(ROWS)
    what = made.add_argument_group("what is measured")
    what.add_argument("--systems", type=_list, default=[], help=f"of {names}")
    what.add_argument("--flush", type=_list, default=[], help="of sync, async; with --systems")
    what.add_argument("--full", action="store_true", help="all systems, and async flush")
    what.add_argument("--rows", type=_list, default=[], help=f"of {rows}")
    what.add_argument("--rounds", type=int, default=3)
    what.add_argument("--turns", type=int, default=1, help="at each row, after one start")
    what.add_argument("--seconds", type=float, default=20.0, help="measured time of a row")
    what.add_argument("--row-warmup", type=float, default=5.0, help="seconds of load before it")
    what.add_argument("--warmup-jvm", type=float, default=60.0, help="seconds after a start")
    what.add_argument("--warmup-popmq", type=float, default=5.0, help="seconds after a start")
    what.add_argument("--messages", type=int, default=500_000, help="backlog of the row receive")
    what.add_argument("--cores", help="pin servers and load generator to these, such as 0,1")
    where = made.add_argument_group("where things are")
    where.add_argument("--popmq", type=Path, default=ROOT / ".venv/bin/popmq")
    compiled = ROOT / ".venv-compiled/bin/popmq"
    where.add_argument("--compiled", type=Path, default=compiled, help="popmq, compiled")
    where.add_argument("--loadgen", type=Path, default=BENCH / "loadgen/loadgen")
    where.add_argument("--anchor", type=Path, default=BENCH / "anchor/anchor.sh")
    where.add_argument("--work", type=Path, default=BENCH / "run", help="files of the servers")
    written = made.add_argument_group("what is written")
    written.add_argument("--results", type=Path, help="default: bench/results/DATE-HOST.json")
    written.add_argument("--table", type=Path, default=PERFORMANCE / "table.md")
    written.add_argument("--plot", type=Path, default=PERFORMANCE / "compare.svg")
    written.add_argument("--no-plot", action="store_true", help="needs no matplotlib")
    written.add_argument("--report-only", type=Path, metavar="RESULTS", help="measure nothing")
    written.add_argument("--json", action="store_true", help="print medians and targets as JSON")
    written.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    return made


def _list(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def cases_of(options: argparse.Namespace) -> list[Case]:
    """Which systems with which flush the options choose, in the order of the rounds."""
    unknown = sorted({*options.systems} - SYSTEMS.keys()) + sorted({*options.flush} - {*FLUSHES})
    if unknown:
        raise BenchFailure(f"no {', '.join(unknown)}; there are {', '.join((*SYSTEMS, *FLUSHES))}")
    if options.systems or options.flush:
        systems = options.systems or [case.system for case in DEFAULT_CASES]
        return [Case(system, flush) for flush in options.flush or ["sync"] for system in systems]
    return list(FULL_CASES if options.full else DEFAULT_CASES)


def plan_of(options: argparse.Namespace) -> Plan:
    if min(options.rounds, options.turns, options.messages) < 1 or options.seconds <= 0:
        raise BenchFailure("--rounds, --turns, --seconds and --messages must be positive")
    return Plan(
        cases=cases_of(options),
        rows=chosen(options.rows),
        rounds=options.rounds,
        turns=options.turns,
        length=Length(options.seconds, options.row_warmup, options.messages),
        warmup_s={True: options.warmup_jvm, False: options.warmup_popmq},
    )


def _run(options: argparse.Namespace) -> int:
    if options.report_only:
        return _report(options, record.load(options.report_only))
    plan = plan_of(options)
    tools = Tools(
        options.popmq.absolute(),
        options.compiled.absolute(),
        options.loadgen.absolute(),
        options.anchor.absolute(),
        options.cores,
    )
    work = options.work.absolute()
    prerequisites.check(tools, plan.cases, work, plot=not options.no_plot)
    kept = _new_record(options, plan, tools)
    path = options.results or _results_path(kept)
    print(
        f"{plan.rounds * len(plan.cases)} starts, {len(plan.rows)} rows each: about"
        f" {spoken(plan.estimate_s())}; results in {path}",
        file=sys.stderr,
    )
    Bench(
        plan, tools, work, kept, lambda: record.save(kept, path), Progress(plan.estimate_s())
    ).run()
    return _report(options, kept)


def _new_record(options: argparse.Namespace, plan: Plan, tools: Tools) -> record.Record:
    jvm = any(SYSTEMS[case.system].jvm for case in plan.cases)
    return record.Record(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=prerequisites.machine(),
        versions=prerequisites.versions(tools, jvm),
        settings={
            "rounds": plan.rounds * plan.turns,
            "seconds": plan.length.seconds,
            "row_warmup_s": plan.length.warmup_s,
            "warmup_jvm_s": options.warmup_jvm,
            "warmup_popmq_s": options.warmup_popmq,
            "messages": plan.length.messages,
            "cores": options.cores,
            "rows": [row.name for row in plan.rows],
            "cases": [str(case) for case in plan.cases],
        },
    )


def _results_path(kept: record.Record) -> Path:
    """A second run in the same minute is taken for a repetition and replaces the first."""
    stamp = kept.started[:16].replace(":", "")
    return BENCH / "results" / f"{stamp}-{kept.machine['host']}.json"


def _report(options: argparse.Namespace, kept: record.Record) -> int:
    summary = results.summarize(kept)
    verdicts = results.verdicts(summary)
    _write(options.table, report.document(kept, summary, verdicts))
    if not options.no_plot:
        from compare import plot  # matplotlib is in the group `bench` alone

        if shown := plot.panels(summary):
            _write(options.plot, plot.svg(shown))
        else:
            print("no picture: that takes both systems of a pair", file=sys.stderr)
    if options.json:
        print(json.dumps(as_json(summary, verdicts), indent=1))
    missed = [verdict for verdict in verdicts if verdict.met is False]
    for verdict in missed:
        measured = report.times(verdict.ratio)
        print(f"not met: {report.target_title(verdict.target)}: {measured}", file=sys.stderr)
    if summary.failures:
        return FAILED
    return MISSED if options.check and missed else 0


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path}", file=sys.stderr)


def as_json(
    summary: results.Summary, verdicts: Sequence[results.Verdict]
) -> dict[str, list[dict[str, object]] | list[str]]:
    """Medians by case and row, and targets."""
    return {
        "rows": [
            {**asdict(case), "row": name, **asdict(row)}
            for (case, name), row in summary.rows.items()
        ],
        "starts": [{**asdict(case), **asdict(start)} for case, start in summary.starts.items()],
        "targets": [
            {**asdict(verdict.target), "ratio": verdict.ratio, "met": verdict.met}
            for verdict in verdicts
        ],
        "failures": summary.failures,
    }
