"""The snapshots of a folder: listed, verified, and how many are kept. Without pyarrow and Spark.

    ROOT/BROKER/SNAPSHOT_ID/…      a broker writes its own below a folder of its name

Whole ones are the ends of chains; a chain goes as a whole, the oldest first.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from popmq_broker.core.store.snapshot_id import prefix
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.columns import ADDED_TABLES, SCHEMA_VERSION, SNAPSHOT_TABLES
from popmq_pipelines.snapshot.destination import Destination, open_destination
from popmq_pipelines.snapshot.manifest import MANIFEST, Manifest, NoSnapshot
from popmq_pipelines.snapshot.seal import SEAL, judge

DEPTH_MAX: Final = 2
"""Folders between the one that is asked about and its snapshots."""


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A snapshot that is there."""

    folder: str
    manifest: Manifest
    manifest_sha256: str

    @property
    def size_bytes(self) -> int:
        return sum(int(told.get("bytes") or 0) for told in self.manifest.files.values())

    @property
    def rows(self) -> int:
        return sum(int(told.get("rows") or 0) for told in self.manifest.files.values())


class Choice(NamedTuple):
    """What the next snapshot goes on from, or why it is whole."""

    previous: KeptSnapshot | None
    why_whole: str = ""


def kept(destination: Destination) -> list[KeptSnapshot]:
    """In the order of time; folders without a manifest that can be read are passed over."""
    found = []
    for name in destination.names():
        try:
            data = destination.read(name, MANIFEST)
            manifest = manifests.decode(data, where=destination.at(name))
        except (FileNotFoundError, NotADirectoryError, NoSnapshot):
            continue
        found.append(KeptSnapshot(name, manifest, sha256(data).hexdigest()))
    return sorted(found, key=lambda one: (one.manifest.as_of_ms, one.manifest.log_end, one.folder))


def unfinished(destination: Destination, broker: str) -> list[str]:
    """Folders that an export of this broker has begun and not finished."""
    begin = prefix(broker)
    found = []
    for name in destination.names():
        if not re.fullmatch(rf"{re.escape(begin)}\d+-\d+", name):
            continue
        try:
            destination.read(name, MANIFEST)
        except FileNotFoundError:
            found.append(name)
    return found


def choose(
    found: Sequence[KeptSnapshot], broker: str, *, log_start: int, log_end: int, chain_max: int
) -> Choice:
    """What a snapshot of this log goes on from: the newest one of the broker, if it joins."""
    mine = [one for one in found if one.manifest.broker == broker]
    if not mine:
        return Choice(None, "it is the first")
    newest = mine[-1]
    manifest = newest.manifest
    if manifest.schema_version != SCHEMA_VERSION:
        return Choice(None, "the last one has another schema")
    if manifest.problems:
        return Choice(None, "the last one has problems")
    if not log_start <= manifest.log_end <= log_end:
        return Choice(None, "the log does not hold what came behind the last one")
    links = chain_of(mine, newest)
    if links is None:
        return Choice(None, "one that the last one goes on from is gone")
    if len(links) >= chain_max:
        return Choice(None, f"{len(links)} go on from each other")
    return Choice(newest)


def chain_of(found: Sequence[KeptSnapshot], last: KeptSnapshot) -> list[KeptSnapshot] | None:
    """It and those it goes on from, the whole one first; None: one is missing."""
    by_id = {one.manifest.snapshot_id: one for one in found}
    links = [last]
    while not links[0].manifest.is_whole:
        before = by_id.get(links[0].manifest.previous_snapshot_id)
        if before is None or len(links) > len(by_id):
            return None
        links.insert(0, before)
    return links


def surplus(found: Sequence[KeptSnapshot], broker: str, keep: int) -> list[KeptSnapshot]:
    """What goes when so many whole ones are kept, with all that go on from them. The last link of
    a chain first, so that no snapshot is ever there without those it goes on from."""
    mine = [one for one in found if one.manifest.broker == broker]
    wholes = [i for i, one in enumerate(mine) if one.manifest.is_whole]
    if keep < 1 or len(wholes) <= keep:
        return []
    return mine[: wholes[-keep]][::-1]


def verify(destination: Destination, one: KeptSnapshot, key: bytes | None = None) -> list[str]:
    """What is wrong with it, by reading every file; empty: it is as it was written. `key`: with
    which its manifest must be sealed, if there is one."""
    manifest = one.manifest
    problems = [*manifest.problems, *_unsealed(destination, one, key)]
    for table in SNAPSHOT_TABLES:
        told = manifest.files.get(table)
        if told is None and table in ADDED_TABLES:
            continue
        if told is None:
            problems.append(f"the manifest does not name {table}")
            continue
        name = f"{table}.parquet"
        try:
            if destination.digest(one.folder, name) != told.get("sha256"):
                problems.append(f"{name} is not the file that was exported: its SHA-256 differs")
        except FileNotFoundError:
            problems.append(f"{name} is missing")
    return problems


def _unsealed(destination: Destination, one: KeptSnapshot, key: bytes | None) -> list[str]:
    """The bytes that were sealed must be those that the hash was made of."""
    if key is None:
        return []
    data = destination.read(one.folder, MANIFEST)
    try:
        found = destination.read(one.folder, SEAL)
    except FileNotFoundError:
        return judge(None, data, key)
    return judge(found, data, key)


def verify_joins(found: Sequence[KeptSnapshot]) -> Iterator[tuple[KeptSnapshot, str]]:
    """Snapshots that do not go on from what is there."""
    by_id = {one.manifest.snapshot_id: one for one in found}
    for one in found:
        manifest = one.manifest
        if manifest.is_whole:
            continue
        before = by_id.get(manifest.previous_snapshot_id)
        if before is None:
            yield one, f"it goes on from {manifest.previous_snapshot_id}, which is not there"
        elif before.manifest_sha256 != manifest.previous_manifest_sha256:
            yield one, f"{before.manifest.snapshot_id}, from which it goes on, has changed"
        elif before.manifest.log_end != manifest.log_from:
            yield one, f"it begins at {manifest.log_from}, not at {before.manifest.log_end}"


def look(place: str) -> list[tuple[Destination, list[KeptSnapshot]]]:
    """Folders with snapshots at a place: itself, or one below (a broker's). A snapshot's own
    folder is found too. Raises `NoDestination`, `OSError`."""
    if "://" not in place and (Path(place) / MANIFEST).is_file():
        path = Path(place).resolve()
        beside = open_destination(str(path.parent))
        return [(beside, [one for one in kept(beside) if one.folder == path.name])]
    places = [place]
    found = []
    for _ in range(DEPTH_MAX):
        below = []
        for name in places:
            destination = open_destination(name)
            if here := kept(destination):
                found.append((destination, here))
            else:
                below += [destination.at(inner) for inner in destination.names()]
        places = below
    return found
