"""python -m popmq_pipelines export|reconcile: snapshots and their audit."""

import argparse
import json
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCOMPLETE": 4}
EXIT_CRASHED = 70  # no verdict at all; must not look like FAIL
INSTALL = "the audit needs the pipelines extra: pip install 'popmq[pipelines]'"


def main() -> int:
    """Exit codes: 0 PASS, 1 FAIL, 2 usage, 4 INCOMPLETE, 70 crashed without a verdict."""
    parser = argparse.ArgumentParser(prog="popmq_pipelines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export", help="write a snapshot of a broker's data directory")
    exporting.add_argument("--data-dir", type=Path, required=True)
    exporting.add_argument("--out", type=Path, required=True)
    judging = commands.add_parser("reconcile", help="audit a snapshot with Spark")
    judging.add_argument("--snapshot", type=Path, required=True)
    judging.add_argument("--out", type=Path)
    judging.add_argument("--grace-s", type=float, default=60.0)
    judging.add_argument("--json", action="store_true")
    options = parser.parse_args()
    return _export(options) if options.command == "export" else _reconcile(options)


def _export(options: argparse.Namespace) -> int:
    try:
        from popmq_pipelines.export import SnapshotExists, export
    except ModuleNotFoundError as missing:
        return _fail(f"{missing.name} is not installed; {INSTALL}")
    try:
        manifest = export(options.data_dir, options.out)
    except (SnapshotExists, FileNotFoundError) as wrong:
        return _fail(str(wrong))
    rows = ", ".join(f"{told['rows']} {name}" for name, told in manifest["files"].items())
    print(f"Snapshot {options.out}: {rows}.")
    return 0


def _reconcile(options: argparse.Namespace) -> int:
    try:
        from popmq_pipelines.reconcile import Verdict, reconcile
        from popmq_pipelines.session import JavaMissing, session
        from popmq_pipelines.snapshot import open_snapshot
    except ModuleNotFoundError as missing:
        return _fail(f"{missing.name} is not installed; {INSTALL}")
    try:
        spark = session("popmq-reconcile")
    except JavaMissing as missing:
        return _fail(str(missing))
    snapshot = open_snapshot(options.snapshot)
    verdict: Verdict = reconcile(spark, snapshot, options.out, grace_ms=int(options.grace_s * 1000))
    spark.stop()
    if options.json:
        print(json.dumps(asdict(verdict)))
    else:
        _show(asdict(verdict))
    return EXIT_CODES[verdict.verdict]


def _show(verdict: dict[str, object]) -> None:
    print(f"{verdict['verdict']}: snapshot {verdict['snapshot']}")
    problems, leases, findings = verdict["problems"], verdict["leases"], verdict["findings"]
    assert isinstance(problems, tuple)
    assert isinstance(leases, dict)
    assert isinstance(findings, list)
    for problem in problems:
        print(f"  {problem}")
    for state, count in leases.items():
        print(f"  {count:>10}  {state}")
    for found in findings[:20]:
        place = f"{found['topic']} queue {found['queue_id']} offset {found['queue_offset']}"
        print(f"  {place}, group {found['consumer_group']}: {found['finding']}")
    hidden = len(findings) - 20
    if hidden > 0:
        print(f"  … and {hidden} more: --json shows up to 1,000, findings.parquet has all")


def _fail(text: str) -> int:
    print(f"popmq_pipelines: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        traceback.print_exc()
        sys.exit(EXIT_CRASHED)
