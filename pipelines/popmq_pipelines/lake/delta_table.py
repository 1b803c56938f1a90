"""One Delta Lake table: what is in it, and one commit that brings it up to date.

Each row has the digest of the files that it came from. So the table itself tells what of an audit
it has, at each of its versions, whoever compacted it meanwhile.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

FILES_MAX = 32
"""Of a broker and day; more are compacted."""


class LakeRefused(Exception):
    """The lake cannot be read or written: another command may be writing it, then try again."""


@contextmanager
def told() -> Iterator[None]:
    """Errors of the library, in one line. Raises `LakeRefused`."""
    try:
        yield
    except (DeltaError, OSError) as wrong:
        why = " ".join(str(wrong).split())
        raise LakeRefused(f"{LakeRefused.__doc__} ({why})") from wrong


def opened(path: Path, schema: pa.Schema, keep_days: int) -> DeltaTable:
    """Made if it is not there. Versions are kept for `keep_days`. Raises `LakeRefused`."""
    kept = f"interval {keep_days} days"
    settings = {"delta.logRetentionDuration": kept, "delta.deletedFileRetentionDuration": kept}
    with told():
        if not DeltaTable.is_deltatable(str(path)):
            path.mkdir(parents=True, exist_ok=True)
            return DeltaTable.create(
                str(path), schema, partition_by=["broker", "day"], configuration=settings
            )
        table = DeltaTable(str(path))
        if any(table.metadata().configuration.get(key) != kept for key in settings):
            table.alter.set_table_properties(settings)
        return table


def known(table: DeltaTable, broker: str) -> set[tuple[str, str]]:
    """(snapshot id, digest) of the broker's rows. Raises `LakeRefused`."""
    found: set[tuple[str, str]] = set()
    columns = ["snapshot_id", "source_digest"]
    with told():
        rows = table.to_pyarrow_dataset()
        for batch in rows.to_batches(columns=columns, filter=pc.field("broker") == broker):
            pairs = pa.Table.from_batches([batch]).group_by(columns).aggregate([])
            found.update(zip(*(pairs.column(name).to_pylist() for name in columns), strict=True))
    return found


def replace(
    table: DeltaTable,
    broker: str,
    snapshot_ids: Iterable[str],
    rows: pa.RecordBatchReader,
    note: Mapping[str, str],
) -> None:
    """In one commit the rows of these snapshots are gone, and `rows` are there. `note` is kept
    with the commit. Raises `LakeRefused`."""
    ids = ", ".join(map(_quoted, sorted(snapshot_ids)))
    with told():
        write_deltalake(
            table,
            rows,
            mode="overwrite",
            schema_mode="merge",
            predicate=f"broker = {_quoted(broker)} AND snapshot_id IN ({ids})",
            commit_properties=CommitProperties(custom_metadata=dict(note)),
        )
        table.update_incremental()


def remove(
    table: DeltaTable, broker: str, snapshot_ids: Iterable[str], note: Mapping[str, str]
) -> None:
    """In one commit. Raises `LakeRefused`."""
    ids = ", ".join(map(_quoted, sorted(snapshot_ids)))
    with told():
        table.delete(
            f"broker = {_quoted(broker)} AND snapshot_id IN ({ids})",
            commit_properties=CommitProperties(custom_metadata=dict(note)),
        )


def compact(table: DeltaTable, broker: str, days: Iterable[date]) -> None:
    """Days of many small files get few large ones; rows stay. Raises `LakeRefused`."""
    with told():
        for day in days:
            where = [("broker", "=", broker), ("day", "=", day.isoformat())]
            if len(table.file_uris(file_pruning_predicate=where)) > FILES_MAX:
                table.optimize.compact(partition_filters=where)


def vacuum(table: DeltaTable, keep_days: int) -> int:
    """Removes files that only versions older than that need; how many. Raises `LakeRefused`."""
    hours = 24 * keep_days
    with told():
        if not table.vacuum(hours, dry_run=True, enforce_retention_duration=False):
            return 0
        return len(table.vacuum(hours, dry_run=False, enforce_retention_duration=False))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
