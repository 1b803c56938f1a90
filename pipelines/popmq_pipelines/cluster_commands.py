"""The command that puts the audits of all brokers together: cluster."""

import argparse
import time
from pathlib import Path
from typing import Final

from popmq_pipelines.command_parts import fail


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    cluster = commands.add_parser(
        "cluster", help="one report of all brokers that `audit` has looked at, without Spark"
    )
    cluster.add_argument(
        "--out", type=Path, default=Path(), help="where `audit` writes; default: this directory"
    )
    cluster.add_argument("--json", action="store_true", help="print the report as JSON")


def _cluster(options: argparse.Namespace) -> int:
    from popmq_pipelines.cluster import cluster_text
    from popmq_pipelines.jobs.report_cluster import NoAudits, as_json, report_cluster

    try:
        report = report_cluster(options.out, time.time_ns() // 1_000_000)
    except (NoAudits, OSError) as wrong:
        return fail(str(wrong))
    print(as_json(report) if options.json else cluster_text.text(report))
    return report.verdict.exit_code


COMMANDS: Final = {"cluster": _cluster}
