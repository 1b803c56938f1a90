"""What is known of a broker at the moment of a snapshot: told by itself, or found in its files.

A broker that runs tells its own, taken between two of its steps: the end of the log, and with it
each queue's oldest and next offset and the groups' positions. As JSON:

    {"broker", "cluster", "logStart", "logEnd", "asOfMs", "runningSinceMs",
     "offsets": the text of consumerOffset.json, "queues": {topic: {queue: [oldest, next]}}}

From files alone (a broker that is stopped, or a copy) the marks and committed offsets are taken
first, then the log, so the log tells at least what the marks do; the queues are what it holds.

`as_of_ms` is the time at which leases are judged. A broker that runs has revived what was due, so
it is now, taken before the log is read; one that is stopped revives nothing, so it is the time of
its last record. `running_since_ms` lets the audit give a broker that has just started its time.
"""

import fcntl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable
from popmq_common.errors import Corrupt
from popmq_pipelines.export.log_reader import flushed_mark

Queues = Mapping[tuple[str, int], tuple[int, int]]
"""Topic and queue id → oldest and next offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    table: OffsetTable
    as_of_ms: int
    """0: the time of the last record."""
    taken_ms: int
    running_since_ms: int = 0
    """0: no broker was running."""
    broker: str = ""
    """Empty: the log tells it."""
    cluster: str = ""
    log_start: int | None = None
    log_end: int | None = None
    """None: where the log ends is found out by reading it."""
    flushed: int = 0
    """Up to where the log is known to be on disk."""
    queues: Queues | None = None
    problems: list[str] = field(default_factory=list)


def told(fields: Mapping[str, Any]) -> Watermarks:
    """By the broker. Raises `KeyError`, `TypeError`, `ValueError`, `Corrupt`."""
    return Watermarks(
        table=offsets.decode(fields["offsets"], where="the broker's positions"),
        as_of_ms=int(fields["asOfMs"]),
        taken_ms=int(fields["asOfMs"]),
        running_since_ms=int(fields["runningSinceMs"]),
        broker=str(fields["broker"]),
        cluster=str(fields["cluster"]),
        log_start=int(fields["logStart"]),
        log_end=int(fields["logEnd"]),
        queues={
            (topic, int(number)): (int(oldest), int(following))
            for topic, numbers in fields["queues"].items()
            for number, (oldest, following) in numbers.items()
        },
    )


def found(data_dir: Path) -> Watermarks:
    """In the files; the log is not read yet."""
    now_ms = time.time_ns() // 1_000_000
    running_since_ms = _running_since_ms(data_dir)
    flushed = flushed_mark(data_dir)
    table, problems = _load_offsets(data_dir)
    return Watermarks(
        table=table,
        as_of_ms=now_ms if running_since_ms else 0,
        taken_ms=now_ms,
        running_since_ms=running_since_ms,
        flushed=max(flushed, table.log_end),
        problems=problems,
    )


def _load_offsets(data_dir: Path) -> tuple[OffsetTable, list[str]]:
    path = data_dir / "config" / "consumerOffset.json"
    try:
        return offsets.decode(path.read_text(), where=str(path)), []
    except FileNotFoundError:
        return OffsetTable(0, {}), []  # an empty table makes the audit incomplete
    except (Corrupt, UnicodeDecodeError) as wrong:
        return OffsetTable(0, {}), [str(wrong)]


def _running_since_ms(data_dir: Path) -> int:
    """When the broker that holds the directory was started; 0: none does.

    A cleanly stopped broker has removed `abort`. Whether a killed one left it can only be seen by
    trying the lock, shared and for a moment.
    """
    if not (data_dir / "abort").exists():
        return 0
    try:
        with open(data_dir / "lock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # held; the holder wrote its id into it when it started
                return (data_dir / "lock").stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0
    return 0
