"""python -m popmq_pipelines: snapshots of a broker's data directory, and their audit.

Exit codes: 0 done or PASS, 1 FAIL, 2 it could not be run, 4 INCOMPLETE, 70 it crashed.
"""

import argparse
import json
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

USAGE = 2
CRASHED = 70  # no verdict at all; must not look like FAIL
_PACKAGES = {"pyspark", "py4j", "pyarrow"}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    run = {"export": _export, "reconcile": _reconcile, "show": _show}[options.command]
    try:
        return run(options)
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in _PACKAGES:
            raise
        return _fail(f"{name} is not installed: pip install 'popmq[pipelines]'")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m popmq_pipelines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write a snapshot of a data directory, read-only")
    export.add_argument("--data-dir", type=Path, required=True)
    export.add_argument("--out", type=Path, required=True, help="a new directory")
    export.add_argument("--snapshot-id", help="default: broker, time and end of the log")
    reconcile = commands.add_parser("reconcile", help="audit a snapshot with Spark")
    reconcile.add_argument("--snapshot", type=Path, required=True)
    reconcile.add_argument("--out", type=Path, help="directory of the tables; default: none")
    reconcile.add_argument("--grace-s", type=float, default=60.0, help="default: %(default)s")
    reconcile.add_argument("--json", action="store_true", help="print the report as JSON")
    reconcile.add_argument("--html", type=Path, help="write the report as a page of its own")
    reconcile.add_argument("--markdown", type=Path, help="write the report as Markdown")
    show = commands.add_parser("show", help="all that a snapshot knows about one message")
    show.add_argument("--snapshot", type=Path, required=True)
    show.add_argument("--topic", required=True)
    show.add_argument("--queue", type=int, required=True)
    show.add_argument("--offset", type=int, required=True)
    return parser


def _export(options: argparse.Namespace) -> int:
    from popmq_pipelines.export import CannotExport, export

    try:
        manifest = export(options.data_dir, options.out, options.snapshot_id)
    except (CannotExport, OSError) as wrong:
        return _fail(str(wrong))
    print(f"Snapshot {manifest.snapshot_id} in {options.out}")
    for table, told in manifest.files.items():
        print(f"  {told['rows']:>10}  {table}")
    for problem in manifest.problems:
        print(f"  incomplete: {problem}")
    return 0


def _reconcile(options: argparse.Namespace) -> int:
    from popmq_pipelines import io, report_html, report_markdown, report_text, session
    from popmq_pipelines.jobs.reconcile import reconcile

    if not options.snapshot.is_dir():
        return _fail(f"{options.snapshot} is no directory")
    if options.grace_s < 0:
        return _fail(f"--grace-s {options.grace_s}: at least 0 is needed")
    snapshot = io.open_snapshot(options.snapshot)
    try:
        spark = session.start("popmq-reconcile", os.environ)
    except session.JavaMissing as missing:
        return _fail(str(missing))
    try:
        grace_ms = int(options.grace_s * 1000)
        report = reconcile(spark, snapshot, options.out, grace_ms=grace_ms)
    finally:
        spark.stop()
    if options.html:
        options.html.write_text(report_html.page(report, options.snapshot))
    if options.markdown:
        options.markdown.write_text(report_markdown.document(report, options.snapshot))
    if options.json:
        print(json.dumps(asdict(report)))
    else:
        print(report_text.text(report, options.snapshot))
    return report.verdict.exit_code


def _show(options: argparse.Namespace) -> int:
    from popmq_pipelines import show

    try:
        found = show.history(options.snapshot, options.topic, options.queue, options.offset)
    except FileNotFoundError as wrong:
        return _fail(str(wrong))
    if not found:
        return _fail(f"nothing of {options.topic} queue {options.queue} offset {options.offset}")
    print("\n".join(show.lines(found)))
    return 0


def _fail(text: str) -> int:
    print(f"popmq_pipelines: {text}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        traceback.print_exc()
        sys.exit(CRASHED)
