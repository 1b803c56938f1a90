"""Forget epochs of whose records the broker has deleted all: their rows, tables and verdicts."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables import ledger_tables, results


class Forgotten(NamedTuple):
    epoch_count: int
    freed_bytes: int
    """Of the ledger's files; those that are linked are freed when their snapshot goes too."""


def compact(out: Path, log_start: int) -> Forgotten:
    """`log_start`: where the broker's log begins now. Raises `LedgerDamaged`."""
    folder = ledger_tables.folder(out)
    ledger = ledgers.load(folder)
    gone = ledgers.forgettable(ledger, log_start)
    ledgers.save(folder, replace(ledger, epochs=ledger.epochs[len(gone) :]))
    freed = 0
    for epoch in gone:
        freed += ledger_tables.size_bytes(out, epoch.number)
        ledger_tables.drop(out, epoch.number)
        results.clear(out, epoch.snapshot_id)
    return Forgotten(len(gone), freed)
