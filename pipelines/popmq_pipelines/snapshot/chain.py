"""A snapshot together with those it goes on from, back to a whole one: read as if it were one.

    whole ◄── goes on ◄── goes on          folders beside each other, named by their snapshot ids

Tables of what happened are read of all folders, tables of how things are (`columns.STATE_TABLES`)
of the last one. A chain in which a link is missing, was changed or does not join says nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.columns import ADDED_TABLES, SNAPSHOT_TABLES, STATE_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, Manifest, NoSnapshot

LENGTH_MAX: Final = 1_000
"""Links; a longer chain was not made by a broker."""
NEVER_EMPTY: Final = ("commitlog_index", "pop_checkpoints", "pop_acks", "consume_offsets")
"""Without rows in these nothing was audited. Positions need not ever have been moved."""
_HINTS: Final = {
    "consume_offsets": "the broker writes it every few seconds: export again",
    "pop_checkpoints": "nothing was handed out yet",
    "pop_acks": "nothing was acknowledged yet",
}


class Chain(NamedTuple):
    folders: Sequence[Path]
    """The whole snapshot first."""
    manifest: Manifest
    """Of the last one, as if it were whole."""
    problems: Sequence[str]
    """Why it says nothing; empty: it is whole."""

    def files(self, table: str) -> list[Path]:
        """That make up the table."""
        folders = self.folders[-1:] if table in STATE_TABLES else self.folders
        files = [folder / f"{table}.parquet" for folder in folders]
        return [file for file in files if table not in ADDED_TABLES or file.is_file()]


def follow(folder: Path) -> Chain:
    """Checks every file of every link. Raises `NoSnapshot`: this folder has no manifest."""
    folder = folder.resolve()
    links = [(folder, manifests.load(folder))]
    problems: list[str] = []
    while not links[0][1].is_whole:
        first = links[0][1]
        before = folder.parent / first.previous_snapshot_id
        if len(links) == LENGTH_MAX:
            problems.append(f"more than {LENGTH_MAX} snapshots go on from each other")
            break
        try:
            found = manifests.load(before)
        except NoSnapshot as wrong:
            problems.append(f"{first.snapshot_id} goes on from one that is not there: {wrong}")
            break
        problems += _join_problems(before, found, first)
        links.insert(0, (before, found))
    for place, manifest in links:
        named = "" if place == folder else f"{manifest.snapshot_id}: "
        problems += [f"{named}{text}" for text in manifests.own_problems(place, manifest)]
    merged = _merged([manifest for _, manifest in links])
    if not problems:
        problems += _empty_problems(merged)
    return Chain([place for place, _ in links], merged, problems)


def _join_problems(before: Path, found: Manifest, following: Manifest) -> list[str]:
    name = following.snapshot_id
    if manifests.digest(before / MANIFEST) != following.previous_manifest_sha256:
        return [f"{name} does not go on from {found.snapshot_id} as it is: its manifest differs"]
    if (found.log_end, found.broker) != (following.log_from, following.broker):
        return [f"{name} begins at log offset {following.log_from}, not at {found.log_end}"]
    return []


def _merged(links: Sequence[Manifest]) -> Manifest:
    first, last = links[0], links[-1]
    files = {
        table: _added([link.files[table] for link in links if table in link.files])
        if table not in STATE_TABLES
        else last.files[table]
        for table in SNAPSHOT_TABLES
        if table in last.files
    }
    times = [link.log_first_ms for link in links if link.log_first_ms]
    return replace(
        last,
        previous_snapshot_id="",
        previous_manifest_sha256="",
        log_start=first.log_from,
        log_from=first.log_from,
        log_first_ms=times[0] if times else 0,
        problems=[],
        files=files,
    )


def _added(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several files of a table hold together."""
    added: dict[str, Any] = {name: sum(int(one.get(name) or 0) for one in told) for name in _SUMS}
    for name, choose in _ENDS.items():
        values = [one[name] for one in told if one.get(name) is not None]
        added[name] = choose(values) if values else None
    return added


_SUMS: Final = ("rows", "bytes")
_ENDS: Final[Mapping[str, Any]] = {
    "log_offset_min": min,
    "log_offset_max": max,
    "queue_offset_min": min,
    "queue_offset_max": max,
}


def _empty_problems(merged: Manifest) -> list[str]:
    return [
        f"{table}.parquet is empty: {_HINTS.get(table, 'the log holds no record')}"
        for table in NEVER_EMPTY
        if not merged.files[table].get("rows")
    ]
