"""One report of all brokers from what their audits left in OUT; no Spark.

OUT/cluster/cluster.json     the report; the next one tells what has changed since
OUT/cluster/report.html      as a page
OUT/cluster/findings.csv     all findings
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.audit.verdict import Report
from popmq_pipelines.cluster import audited_broker, cluster_page, findings_csv
from popmq_pipelines.cluster import owners as ownership
from popmq_pipelines.cluster.audited_broker import AuditedBroker
from popmq_pipelines.cluster.cluster_page import FINDINGS_SHOWN
from popmq_pipelines.cluster.cluster_report import ClusterReport, put_together
from popmq_pipelines.cluster.owners import Said
from popmq_pipelines.report.last_report import NoReport
from popmq_pipelines.tables.ledger import LedgerDamaged

FOLDER: Final = "cluster"
"""Beside the folders of brokers."""
CSV: Final = "findings.csv"
VERSION: Final = 1
Audited = tuple[AuditedBroker, Path]
"""And its audit's directory."""


class NoAudits(Exception):
    """No audit of a broker lies there: run `popmq-pipelines audit --out` with this directory."""


def report_cluster(out: Path, now_ms: int) -> ClusterReport:
    """Writes the files above. Raises `NoAudits`, `OSError`."""
    places = sorted(path.parent for path in out.glob("*/report/report.json"))
    if not places:
        raise NoAudits(f"{out}: {NoAudits.__doc__}")
    said: list[Said] = []
    audited: list[Audited] = []
    problems: list[str] = []
    for place in places:
        try:
            said.append(audited_broker.owners_said(place))
        except (LedgerDamaged, OSError) as wrong:
            problems.append(f"{place.parent.name}: {wrong}")
    owners = ownership.newest(said)
    if not problems:
        for place in places:
            try:
                audited.append((audited_broker.read(place.parent.name, place, owners), place))
            except (NoReport, LedgerDamaged, OSError) as wrong:
                problems.append(f"{place.parent.name}: {wrong}")
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    brokers = [one for one, _ in audited]
    report = put_together(brokers, problems, owners, _before(folder), now_ms)
    findings_csv.write(folder / CSV, ((name, row) for name, row, _ in _findings(audited)), owners)
    shown = list(islice(_findings(audited), FINDINGS_SHOWN))
    _replace(folder / "report.html", cluster_page.page(report, shown, CSV))
    _replace(folder / "cluster.json", as_json(report) + "\n")
    return report


def as_json(report: ClusterReport) -> str:
    return json.dumps({"version": VERSION, **asdict(report)}, indent=1)


def _before(folder: Path) -> Mapping[str, Any] | None:
    """None: there is none, or none that this version can read."""
    try:
        told = json.loads((folder / "cluster.json").read_text())
        return told if told["version"] == VERSION else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _findings(audited: Sequence[Audited]) -> Iterator[tuple[str, Mapping[str, Any], Path]]:
    """Broker, finding, where the snapshot lies."""
    for one, place in audited:
        for found in _of_one(one.report, place):
            yield one.name, found, one.snapshot


def _of_one(report: Report, place: Path) -> Iterator[Mapping[str, Any]]:
    """Of an audit's tables; of one that has none, as its report has them."""
    count = 0
    for row in audited_broker.findings(place):
        count += 1
        yield row
    if not count:
        yield from report.findings


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.tmp")
    fresh.write_text(text)
    os.replace(fresh, path)
