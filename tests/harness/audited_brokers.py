"""What audits left of brokers that never were, and the cluster's report of them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.cluster.audited_broker import AuditedBroker
from popmq_pipelines.cluster.cluster_report import ClusterReport, put_together
from popmq_pipelines.cluster.owners import GROUP, TOPIC, Owners
from popmq_pipelines.tables.ledger import Epoch, Ledger

OWNERS = Owners({(TOPIC, "orders"): "shop", (GROUP, "billing"): "money"})
MINUTE = 60_000


def epoch(number: int, log_from: int, log_end: int) -> Epoch:
    return Epoch(
        number=number,
        snapshot_id=f"s{number}",
        manifest_sha256="",
        log_from=log_from,
        log_end=log_end,
        log_first_ms=0,
        latest_ms=0,
        last_row=None,
        lease_count=0,
    )


def broker(name: str, *epochs: Epoch, **told: Any) -> AuditedBroker:
    of_report = ("verdict", "finding_places", "problems")
    report = {key: told.pop(key) for key in of_report if key in told}
    places = report.get("finding_places", ())
    report["finding_counts"] = {row["kind"]: row["finding_count"] for row in places}
    return AuditedBroker(
        name=name,
        report=Report(
            **{"verdict": AuditVerdict.PASS, **report},
            broker=name,
            snapshot_id="s",
            as_of_ms=1_000,
        ),
        snapshot=Path("s"),
        ledger=Ledger(name, epochs or (epoch(1, 0, 100),)),
        **told,
    )


def made(
    *brokers: AuditedBroker, before: ClusterReport | None = None, problems: tuple[str, ...] = ()
) -> ClusterReport:
    known = None if before is None else json.loads(json.dumps(asdict(before)))
    return put_together(brokers, problems, OWNERS, known, 5_000)
