"""What the audits of a folder said last: the report.json files that `popmq-pipelines` leaves."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

NAME: Final = "report.json"
BELOW: Final = (NAME, f"*/{NAME}", f"*/report/{NAME}")
"""One audit's folder, or one that has a folder for each broker."""
REPORTS_MAX: Final = 100
BYTES_MAX: Final = 32 << 20
FINDINGS_SHOWN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    topic: str
    group: str
    queue_id: str
    offset: str
    count: str
    message_id: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    broker: str
    verdict: str
    """PASS, FAIL, INCOMPLETE; `not readable` where the file is not."""
    as_of_ms: int = 0
    """When the snapshot was taken; 0: not known."""
    log_start: int | None = None
    log_end: int | None = None
    problems: tuple[str, ...] = ()
    leases: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How many findings of each kind."""
    findings: tuple[Finding, ...] = ()
    """The first ones."""

    @property
    def found(self) -> int:
        return sum(self.kinds.values())

    @property
    def tone(self) -> str:
        return {"PASS": "good", "FAIL": "bad"}.get(self.verdict, "warn")


def audit_reports(folder: Path) -> list[AuditReport]:
    """By broker. Raises `OSError` where the folder cannot be read."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    found = [_read(file, folder) for file in islice(_files(folder), REPORTS_MAX)]
    return sorted(found, key=lambda one: one.broker)


def _files(folder: Path) -> Iterator[Path]:
    for pattern in BELOW:
        yield from sorted(folder.glob(pattern))


def _read(file: Path, folder: Path) -> AuditReport:
    name = str(file.relative_to(folder).parent)
    try:
        if file.stat().st_size > BYTES_MAX:
            raise ValueError(f"it has more than {BYTES_MAX:,} bytes")
        return _report(json.loads(file.read_text())["report"], name)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as wrong:
        return AuditReport(name, "not readable", problems=(f"{type(wrong).__name__}: {wrong}",))


def _report(told: Mapping[str, Any], name: str) -> AuditReport:
    return AuditReport(
        broker=str(told.get("broker") or name),
        verdict=str(told["verdict"]),
        as_of_ms=int(told.get("as_of_ms") or 0),
        log_start=told.get("log_start"),
        log_end=told.get("log_end"),
        problems=tuple(str(one) for one in told.get("problems") or ()),
        leases={str(state): int(count) for state, count in told["lease_states"].items()},
        kinds={str(kind): int(count) for kind, count in told["finding_counts"].items()},
        findings=tuple(_finding(one) for one in islice(told["findings"], FINDINGS_SHOWN_MAX)),
    )


def _finding(told: Mapping[str, Any]) -> Finding:
    names = (
        *("kind", "topic", "consumer_group", "queue_id", "queue_offset"),
        *("offset_count", "message_id"),
    )
    return Finding(*("" if told.get(name) is None else str(told[name]) for name in names))
