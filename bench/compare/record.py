"""The results file: one JSON document, written anew after every row.

{"format": 1, "started": ISO 8601, "machine": {…}, "versions": {…}, "settings": {…},
 "rows":   [{"system", "flush", "round", "row", "report": loadgen's | null, "error": text | null}],
 "starts": [{"system", "flush", "round", "startup_s",
             "idle": {process: {"anonymous_mib", "total_mib"}}, "loaded": the same}]}
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compare.failure import BenchFailure
from compare.load import Report
from compare.processes import Memory

FORMAT = 1


@dataclass(frozen=True)
class RowRun:
    """One row in one round."""

    system: str
    flush: str
    round: int
    row: str
    """Name of the row; `start` for a failure before the first row."""
    report: Report | None
    error: str | None = None


@dataclass
class Start:
    """One start of a system: how long it took, and memory by process."""

    system: str
    flush: str
    round: int
    startup_s: float
    """From the launch of the first process to the first confirmed send, seconds."""
    idle: dict[str, Memory] = field(default_factory=dict)
    """After the first send."""
    loaded: dict[str, Memory] = field(default_factory=dict)
    """After the last row that ran."""


@dataclass
class Record:
    """Everything that is known of a benchmark."""

    started: str
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    rows: list[RowRun] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)


def save(record: Record, path: Path) -> None:
    save_document({"format": FORMAT, **asdict(record)}, path)


def save_document(document: dict[str, Any], path: Path) -> None:
    """Replaces the file in one step, so that an aborted run leaves a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(document, indent=1) + "\n")
    os.replace(draft, path)


def load(path: Path) -> Record:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as failure:
        raise BenchFailure(f"{path} cannot be read: {failure}") from failure
    if document.get("format") != FORMAT:
        raise BenchFailure(f"{path} has format {document.get('format')}, not {FORMAT}")
    return Record(
        started=document["started"],
        machine=document["machine"],
        versions=document["versions"],
        settings=document["settings"],
        rows=[RowRun(**row) for row in document["rows"]],
        starts=[_start(start) for start in document["starts"]],
    )


def _start(document: dict[str, Any]) -> Start:
    memories = {
        when: {name: Memory(**sizes) for name, sizes in document[when].items()}
        for when in ("idle", "loaded")
    }
    return Start(**{**document, **memories})
