"""The command that publishes audits for analysts: lake."""

import argparse
import time
from pathlib import Path
from typing import Final

from popmq_pipelines.command_parts import fail

KEEP_DAYS: Final = 30


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    lake = commands.add_parser(
        "lake", help="publish the tables of audits as Delta Lake tables, without Spark"
    )
    lake.add_argument(
        "--out",
        type=Path,
        required=True,
        nargs="+",
        metavar="OUT",
        help="what `audit`, `backfill` or `reconcile` wrote",
    )
    lake.add_argument("--into", type=Path, required=True, metavar="LAKE", help="the lake's folder")
    lake.add_argument(
        "--keep-days",
        type=int,
        default=KEEP_DAYS,
        help=f"how long a table's old versions can be read; default {KEEP_DAYS}",
    )


def _lake(options: argparse.Namespace) -> int:
    from popmq_pipelines.lake import audits, delta_table
    from popmq_pipelines.lake.publish import publish
    from popmq_pipelines.tables.ledger import LedgerDamaged

    if options.keep_days < 0:
        return fail("--keep-days: 0 or more")
    wrong_ones = (
        audits.NothingAudited,
        audits.OneNameTwice,
        delta_table.LakeRefused,
        LedgerDamaged,
        OSError,
    )
    try:
        for audit in audits.find(options.out):
            done = publish(
                audit,
                options.into,
                keep_days=options.keep_days,
                now_ms=time.time_ns() // 1_000_000,
            )
            print(
                f"{done.broker}: {len(done.written)} tables written, "
                f"{done.replaced_count} partitions new or changed, {done.expired_count} expired"
            )
    except wrong_ones as wrong:
        return fail(str(wrong))
    return 0


COMMANDS: Final = {"lake": _lake}
