"""The command that audits snapshots as they arrive: stream."""

import argparse
import signal
import time
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Final

from popmq_pipelines.command_parts import (
    alone_in,
    fail,
    refusal,
    report_options,
    spark_options,
    start_spark,
    tell,
    tell_last,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from popmq_pipelines.audit.verdict import Report

EVERY_S: Final = 60.0
LOOK_S: Final = 0.5
"""How soon it sees that it shall stop, or that the query has failed."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    stream = commands.add_parser(
        "stream", help="audit snapshots as they arrive in a folder, until it is stopped"
    )
    stream.add_argument("--snapshots", type=Path, required=True)
    stream.add_argument("--out", type=Path, required=True, help="tables and memory")
    when = stream.add_mutually_exclusive_group()
    when.add_argument(
        "--every-s",
        type=float,
        default=EVERY_S,
        help="how often to look for new snapshots; default: %(default)s",
    )
    when.add_argument("--once", action="store_true", help="audit what is there, then end")
    stream.add_argument(
        "--max-age-s",
        type=float,
        default=0.0,
        help="INCOMPLETE when the newest snapshot is older; default: any age will do",
    )
    spark_options(stream)
    report_options(stream)


def _stream(options: argparse.Namespace) -> int:
    from popmq_pipelines.tables.ledger import LedgerDamaged
    from popmq_pipelines.tables.session import JavaMissing

    if wrong_there := refusal(options.snapshots, options.grace_s):
        return fail(wrong_there)
    if options.every_s <= 0:
        return fail(f"--every-s {options.every_s}: more than 0 is needed")
    try:
        with alone_in(options.out):
            spark = start_spark("popmq-stream", options, None)
            try:
                return _follow(spark, options)
            finally:
                spark.stop()
    except (JavaMissing, LedgerDamaged) as wrong:
        return fail(str(wrong))


def _follow(spark: "SparkSession", options: argparse.Namespace) -> int:
    """Until SIGTERM or SIGINT; an audit that is under way is finished first."""
    from popmq_pipelines.jobs import stream

    arrivals = ArrivingSnapshots(spark, options)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    every_s = None if options.once else options.every_s
    query = stream.begin(spark, options.snapshots, options.out, arrivals.audit, every_s=every_s)
    while query.isActive and not stop.wait(LOOK_S):
        if every_s is not None:
            arrivals.look_at_age(time.time(), every_s)
    arrivals.stop()
    query.stop()
    if arrivals.wrong is not None:
        return fail(str(arrivals.wrong))
    if (failed := query.exception()) is not None and not arrivals.refused:
        raise failed
    return arrivals.ended(time.time()) if options.once else 0


class AuditStopped(Exception):
    """What arrived when the stream was being stopped is for the next one."""


class ArrivingSnapshots:
    """The snapshots that have come since the start, and what was said of them."""

    def __init__(self, spark: "SparkSession", options: argparse.Namespace) -> None:
        self.refused = False
        """Something arrived after `stop`."""
        self.wrong: Exception | None = None
        """What keeps it from auditing at all."""
        self._auditing = Lock()
        """Held while snapshots are judged."""
        self._stopping = False
        self._spark = spark
        self._options = options
        self._codes: list[int] = []
        self._is_late = False
        self._looked_s = time.time()

    def audit(self) -> None:
        """Raises what `backfill` raises, and `AuditStopped`."""
        from popmq_pipelines.jobs.backfill import backfill
        from popmq_pipelines.snapshot.seal import BadKey
        from popmq_pipelines.tables.ledger import LedgerDamaged

        with self._auditing:
            if self._stopping:
                self.refused = True
                raise AuditStopped
            try:
                backfill(
                    self._spark,
                    self._options.snapshots,
                    self._options.out,
                    since=None,
                    until=None,
                    grace_ms=int(self._options.grace_s * 1000),
                    tell=self._tell,
                )
            except (BadKey, LedgerDamaged) as wrong:
                self.wrong = wrong
                raise

    def stop(self) -> None:
        """When the audit that is under way is finished. No other one begins."""
        with self._auditing:
            self._stopping = True

    def look_at_age(self, now_s: float, every_s: float) -> None:
        """Once in `every_s`. That none comes any more is told once, until one comes."""
        if not self._options.max_age_s or now_s - self._looked_s < every_s:
            return
        if not self._auditing.acquire(blocking=False):
            return
        try:
            self._looked_s = now_s
            if not self._is_late and (late := self._late(now_s)) is not None:
                self._is_late = True
                self._publish(late, self._options.snapshots)
        finally:
            self._auditing.release()

    def ended(self, now_s: float) -> int:
        """The exit code of what was to be done once."""
        late = self._late(now_s)
        if late is not None:
            return self._publish(late, self._options.snapshots)
        if not self._codes:
            return tell_last(self._options)
        return self._codes[-1]

    def _late(self, now_s: float) -> "Report | None":
        """FAIL is not hidden behind it, and what is there is audited first."""
        from popmq_pipelines.audit.verdict import AuditVerdict
        from popmq_pipelines.jobs.backfill import pending, too_old

        if self._codes and self._codes[-1] == AuditVerdict.FAIL.exit_code:
            return None
        if not self._codes and pending(self._options.snapshots, self._options.out):
            return None
        return too_old(self._options.snapshots, self._options.out, self._options.max_age_s, now_s)

    def _tell(self, report: "Report", folder: Path) -> None:
        self._is_late = False
        self._codes.append(self._publish(report, folder))

    def _publish(self, report: "Report", folder: Path) -> int:
        return tell(report, folder, self._options, self._options.out)


COMMANDS: Final = {"stream": _stream}
