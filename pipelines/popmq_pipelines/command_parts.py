"""What commands share: options, the Spark session, where a report goes, exit codes."""

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from popmq_pipelines.audit.verdict import Report

USAGE: Final = 2
OVERLAPS: Final = 75
"""Exit code (EX_TEMPFAIL): another audit is under way there."""
GRACE_S: Final = 60.0


class Overlaps(Exception):
    """Another audit is under way there."""


class CannotWrite(Exception):
    """No reports can be written there."""


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Makes the directory if it is not there. Raises `Overlaps`, `CannotWrite`."""
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(out / "audit.lock", "w"))
        except OSError as wrong:
            raise CannotWrite(f"no reports can be written into {out}: {wrong.strerror}") from wrong
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Overlaps(f"another audit is under way in {out.resolve()}") from None
        yield


def refusal(folder: Path, grace_s: float) -> str:
    """What is wrong with what an audit was given; empty: nothing."""
    if not folder.is_dir():
        return f"{folder} is no directory"
    if grace_s < 0:
        return f"--grace-s {grace_s}: at least 0 is needed"
    return ""


def spark_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--grace-s", type=float, default=GRACE_S, help="default: %(default)s")
    where_options(parser)


def where_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", help="default: POPMQ_SPARK_MASTER, spark-submit's, local[*]")
    parser.add_argument("--driver-memory", help="as Spark writes it, for example 4g")


def report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--html", type=Path, help="write the report as a page of its own")
    parser.add_argument("--markdown", type=Path, help="write the report as Markdown")
    parser.add_argument("--prometheus", type=Path, help="write figures for a textfile collector")


def start_spark(app: str, options: argparse.Namespace, row_count: int | None) -> "SparkSession":
    """Raises `JavaMissing`."""
    from popmq_pipelines.tables import session

    memory = options.driver_memory
    return session.start(
        app, os.environ, master=options.master, driver_memory=memory, row_count=row_count
    )


def tell(report: "Report", snapshot: Path, options: argparse.Namespace, out: Path | None) -> int:
    """Writes and prints what was asked for, and remembers it in `out`; returns the exit code."""
    from popmq_pipelines.report.publish import ReportTargets, publish

    targets = ReportTargets(
        out=out,
        html=options.html,
        markdown=options.markdown,
        prometheus=options.prometheus,
        as_json=options.json,
    )
    return publish(report, snapshot, targets, time.time())


def tell_last(options: argparse.Namespace) -> int:
    """The report of the last run of `--out`, where there was nothing new."""
    print("Nothing new; the last report was:", file=sys.stderr)
    return tell_again(options)


def tell_again(options: argparse.Namespace) -> int:
    """The report of the last run of `--out`."""
    from popmq_pipelines.report.last_report import NoReport, load

    try:
        report, snapshot = load(options.out)
    except NoReport as wrong:
        return fail(str(wrong))
    return tell(report, snapshot, options, None)


def fail(text: str) -> int:
    print(f"popmq_pipelines: {text}", file=sys.stderr)
    return USAGE
