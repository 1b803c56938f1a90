"""What an audit remembers from run to run, so that a run reads what is new and what that touches.

    OUT/ledger/ledger.json          the epochs: one per snapshot that was audited, in their order
    OUT/ledger/000001/T/…           the snapshot's tables, linked or copied: it may be deleted then
    OUT/ledger/000001/spans/…       which offsets of which queue this epoch brought
    OUT/ledger/000001/faults/…      what was found of the log that it brought

A message belongs to the epoch whose snapshot brought it. A later snapshot that has leases, acks or
records of it opens its epoch again: its results are made anew from all its rows. Epochs with open
leases or findings stay open. So the tables are what one audit over everything would have made.

To audit a snapshot again the ledger is rewound to before it; what followed has to follow again.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.snapshot.manifest import Manifest

LEDGER_VERSION: Final = 1
EPOCHS_MAX: Final = 10_000
"""More than two months of ten-minute snapshots."""


class LedgerDamaged(Exception):
    """The audit's own book cannot be read: run `popmq-pipelines backfill` into a new directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    number: int
    snapshot_id: str
    manifest_sha256: str
    log_from: int
    """Where the rows begin that were new."""
    log_end: int
    log_first_ms: int
    latest_ms: int
    """The latest store time so far."""
    last_row: dict[str, Any] | None
    """The last record so far, as a row of commitlog_index."""
    lease_count: int
    """About how many leases its rows are about."""
    touched: Sequence[int] = ()
    """The epochs that its rows are about."""
    judged: Sequence[int] = ()
    still_open: Sequence[int] = ()
    wakes: Mapping[str, int] = field(default_factory=dict)
    """Epochs of which something waits for its time → when the first of it must have come, in ms."""
    as_of_ms: int = 0
    taken_ms: int = 0
    revive_lag_count: int | None = None
    oldest_open_age_ms: int | None = None
    told_since: int | None = None
    """The log offset from which on it is told how groups go over messages; None: it is not."""
    told_since_ms: int = 0
    told_from: int | None = None
    """The same, as an offset of revive queue 0."""

    @property
    def moment_ms(self) -> int:
        """When its snapshot was taken, as far as it was told."""
        return self.taken_ms or self.as_of_ms


@dataclass(frozen=True, slots=True)
class Ledger:
    broker: str = ""
    epochs: tuple[Epoch, ...] = ()
    again: tuple[int, ...] = ()
    """Must be judged anew: a run that was taken back had judged them."""

    @property
    def newest(self) -> Epoch | None:
        return self.epochs[-1] if self.epochs else None

    @property
    def watermark(self) -> int:
        """Up to here the log has been read."""
        return self.epochs[-1].log_end if self.epochs else 0

    @property
    def audited(self) -> dict[str, str]:
        """Snapshot id → SHA-256 of its manifest."""
        return {one.snapshot_id: one.manifest_sha256 for one in self.epochs}

    def names(self, numbers: Iterable[int]) -> dict[int, str]:
        """Number → snapshot id of the epochs that are known."""
        wanted = set(numbers)
        return {one.number: one.snapshot_id for one in self.epochs if one.number in wanted}


def rewound(ledger: Ledger, snapshot_id: str) -> Ledger:
    """As it was before this snapshot."""
    for place, epoch in enumerate(ledger.epochs):
        if epoch.snapshot_id == snapshot_id:
            kept, dropped = ledger.epochs[:place], ledger.epochs[place:]
            left = {one.number for one in kept}
            judged_since = {number for one in dropped for number in one.judged}
            again = left & {*ledger.again, *judged_since}
            return replace(ledger, epochs=kept, again=tuple(sorted(again)))
    return ledger


def went_back(ledger: Ledger, manifest: Manifest) -> bool:
    """A later look at a log that is shorter than it was: what lay at its end is lost."""
    newest = ledger.newest
    if newest is None or manifest.broker not in ("", ledger.broker):
        return False
    return manifest.log_end < newest.log_end and manifest.moment_ms > newest.moment_ms


def problems(ledger: Ledger, manifest: Manifest) -> list[str]:
    """Why a snapshot cannot be the next one."""
    newest = ledger.newest
    if newest is None:
        return []
    if manifest.broker != ledger.broker:
        return [
            f"this audit is of {ledger.broker!r}, the snapshot of {manifest.broker!r}: choose "
            "another --out"
        ]
    if manifest.log_end < ledger.watermark:
        return [
            f"the snapshot ends at log offset {manifest.log_end}, before {newest.snapshot_id} "
            f"({ledger.watermark}): audit snapshots in their order, or choose another --out"
        ]
    if manifest.log_from > ledger.watermark:
        return [
            f"log offsets {ledger.watermark} to {manifest.log_from} are in no snapshot "
            "that was audited: audit those between first"
        ]
    if len(ledger.epochs) >= EPOCHS_MAX:
        return [f"{EPOCHS_MAX:,} snapshots are remembered: popmq-pipelines compact"]
    return []


def judged(ledger: Ledger, number: int, touched: Iterable[int], as_of_ms: int) -> list[int]:
    """The epochs that the run of epoch `number` has to judge; `as_of_ms`: its time, less the
    grace."""
    newest = ledger.newest
    still_open = newest.still_open if newest else ()
    wakes = newest.wakes if newest else {}
    woken = [int(name) for name, at_ms in wakes.items() if at_ms <= as_of_ms]
    left = {one.number for one in ledger.epochs} | {number}
    return sorted({number, *touched, *still_open, *woken, *ledger.again} & left)


def sources(ledger: Ledger, judged: Sequence[int]) -> list[Epoch]:
    """The epochs whose files have rows of those that are judged."""
    wanted = set(judged)
    return [one for one in ledger.epochs if wanted & {one.number, *one.touched}]


def forgettable(ledger: Ledger, log_start: int) -> list[Epoch]:
    """The first ones, of whose records the broker has deleted all; the newest stays."""
    found = []
    for epoch in ledger.epochs[:-1]:
        if epoch.log_end > log_start:
            break
        found.append(epoch)
    return found


def load(folder: Path) -> Ledger:
    """Empty when there is none. Raises `LedgerDamaged`."""
    try:
        told = json.loads((folder / "ledger.json").read_text())
        if told["version"] != LEDGER_VERSION:
            raise LedgerDamaged(f"{LedgerDamaged.__doc__} ({folder}: version {told['version']})")
        epochs = tuple(Epoch(**epoch) for epoch in told["epochs"])
        return Ledger(told["broker"], epochs, tuple(told["again"]))
    except FileNotFoundError:
        return Ledger()
    except (ValueError, TypeError, KeyError) as wrong:
        raise LedgerDamaged(f"{LedgerDamaged.__doc__} ({folder}: {wrong})") from wrong


def save(folder: Path, ledger: Ledger) -> None:
    """In place at once."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "version": LEDGER_VERSION,
        "broker": ledger.broker,
        "again": ledger.again,
        "epochs": [asdict(epoch) for epoch in ledger.epochs],
    }
    fresh = folder / "ledger.json.tmp"
    fresh.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    os.replace(fresh, folder / "ledger.json")
