"""The report of the last run, beside the tables: to be shown again without Spark."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Final

from popmq_pipelines.audit.verdict import AuditVerdict, Report

NAME: Final = "report.json"


class NoReport(Exception):
    """No audit has finished there: run `popmq-pipelines reconcile` with this --out."""


def save(out: Path, report: Report, snapshot: Path) -> None:
    """In place at once. `snapshot`: where it lies, for the commands that a report names."""
    out.mkdir(parents=True, exist_ok=True)
    told = {"snapshot": str(snapshot.resolve()), "report": asdict(report)}
    fresh = out / f"{NAME}.tmp"
    fresh.write_text(json.dumps(told, indent=1) + "\n")
    os.replace(fresh, out / NAME)


def load(out: Path) -> tuple[Report, Path]:
    """Raises `NoReport`."""
    try:
        told = json.loads((out / NAME).read_text())
        fields = told["report"]
        report = Report(**{**fields, "verdict": AuditVerdict(fields["verdict"])})
        return report, Path(told["snapshot"])
    except (OSError, ValueError, TypeError, KeyError) as wrong:
        raise NoReport(f"{out}: {NoReport.__doc__} ({wrong})") from wrong
