"""The job: read a snapshot, judge it, write the result. Three verdicts, never green by absence.

PASS         every lease is accounted for
FAIL         findings.parquet and the verdict name what is not, with topic, queue and offset
INCOMPLETE   the snapshot is not whole, so nothing can be said
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from popmq_pipelines.snapshot import Snapshot
from popmq_pipelines.transforms.leases import balance, findings, lease_states

FINDINGS_SHOWN_MAX = 1_000
VERDICT = "verdict.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    verdict: str
    snapshot: str
    problems: tuple[str, ...] = ()
    leases: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    findings_count: int = 0


def reconcile(
    spark: SparkSession, snapshot: Snapshot, into: Path | None, *, grace_ms: int
) -> Verdict:
    """Writes `into` (if given) leases.parquet, findings.parquet, balance.parquet, verdict.json."""
    if snapshot.problems:
        verdict = Verdict(
            verdict="INCOMPLETE", snapshot=snapshot.folder.name, problems=snapshot.problems
        )
        _write_verdict(into, verdict)
        return verdict
    tables = {
        name: snapshot.table(spark, name) for name in ("messages", "checkpoints", "acks", "moves")
    }
    states = lease_states(
        tables["checkpoints"],
        tables["acks"],
        tables["moves"],
        as_of_ms=snapshot.as_of_ms,
        grace_ms=grace_ms,
    ).cache()
    found = findings(states, tables["acks"], tables["checkpoints"], tables["messages"]).cache()
    summary = balance(states)
    if into is not None:
        for name, frame in {"leases": states, "findings": found, "balance": summary}.items():
            frame.coalesce(1).write.mode("overwrite").parquet(str(into / f"{name}.parquet"))
    count = found.count()
    shown = found.orderBy("topic", "queue_id", "queue_offset").limit(FINDINGS_SHOWN_MAX)
    leases: dict[str, int] = {}
    for row in summary.collect():
        leases[row["state"]] = leases.get(row["state"], 0) + row["leases"]
    verdict = Verdict(
        verdict="FAIL" if count else "PASS",
        snapshot=snapshot.folder.name,
        leases=dict(sorted(leases.items())),
        findings=[row.asDict() for row in shown.collect()],
        findings_count=count,
    )
    states.unpersist()
    found.unpersist()
    _write_verdict(into, verdict)
    return verdict


def _write_verdict(into: Path | None, verdict: Verdict) -> None:
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
        (into / VERDICT).write_text(json.dumps(asdict(verdict), indent=1))
