"""What a manifest says, held against its files: hashes alone only prove that nobody changed a file
after the manifest was written.

    rows, ranges of offsets       as the files' own footers have them
    log_from, log_end             every row lies between them
    log_last, log_end             the last record begins there, and the log ends behind it
    as_of_ms                      not before the last record was stored
    offsets_log_end               not behind the log's end
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from popmq_pipelines.snapshot.manifest import Manifest

AS_OF_BEHIND_MS_MAX: Final = 600_000
"""By how much the clock may have been set back since the last record."""
FILE_BYTES_STEP: Final = 512
"""Files of the log end at multiples of it; only there may the log end behind its last record."""
_COLUMNS: Final = ("log_offset", "queue_offset")
_INDEX: Final = "commitlog_index"


def problems(folder: Path, manifest: Manifest) -> list[str]:
    """Empty: the manifest is true. Its files are there, with the hashes that it names."""
    found: list[str] = []
    for table, told in manifest.files.items():
        file = folder / f"{table}.parquet"
        if file.is_file():
            found += _of_table(table, told, pq.read_metadata(file), manifest)
    index = folder / f"{_INDEX}.parquet"
    if index.is_file():
        found += _of_end(index, manifest)
    if manifest.offsets_log_end > manifest.log_end:
        found.append(
            f"the positions rest on the log up to {manifest.offsets_log_end}, and it ends at "
            f"{manifest.log_end}"
        )
    return found


def _of_table(table: str, told: Mapping[str, Any], read: Any, manifest: Manifest) -> list[str]:
    found = []
    if told.get("rows") != read.num_rows:
        found.append(f"{table} has {read.num_rows} rows, its manifest says {told.get('rows')}")
    for column in _COLUMNS:
        least, greatest = _range(read, column)
        for name, value in ((f"{column}_min", least), (f"{column}_max", greatest)):
            if name in told and told[name] != value:
                found.append(f"{table}: {name} is {value}, its manifest says {told[name]}")
        if column != "log_offset" or least is None or greatest is None:
            continue
        if least < manifest.log_from or greatest >= manifest.log_end:
            found.append(
                f"{table} has log offsets {least} to {greatest}, its manifest says that they lie "
                f"between {manifest.log_from} and {manifest.log_end}"
            )
    return found


def _range(read: Any, column: str) -> tuple[int | None, int | None]:
    """From the statistics of the row groups."""
    names = [read.schema.column(i).name for i in range(len(read.schema))]
    if column not in names or not read.num_rows:
        return None, None
    at = names.index(column)
    groups = [read.row_group(i) for i in range(read.num_row_groups)]
    known = [group.column(at).statistics for group in groups if group.num_rows]
    return min(one.min for one in known), max(one.max for one in known)


def _of_end(index: Path, manifest: Manifest) -> list[str]:
    read = pq.ParquetFile(index)
    if not read.metadata.num_rows:
        return []
    last_group = max(
        i for i in range(read.metadata.num_row_groups) if read.metadata.row_group(i).num_rows
    )
    columns = ["log_offset", "size_bytes"]
    last = read.read_row_group(last_group, columns=columns).to_pylist()[-1]
    found = []
    if last["log_offset"] != manifest.log_last:
        found.append(
            f"the last record is at log offset {last['log_offset']}, the manifest says "
            f"{manifest.log_last}"
        )
    end = last["log_offset"] + last["size_bytes"]
    at_file_end = manifest.log_end % FILE_BYTES_STEP == 0
    if end > manifest.log_end or (end < manifest.log_end and not at_file_end):
        found.append(
            f"the last record ends at log offset {end}, the manifest says that the log ends at "
            f"{manifest.log_end}"
        )
    _, latest_ms = _range(read.metadata, "store_timestamp_ms")
    if latest_ms is not None and manifest.as_of_ms + AS_OF_BEHIND_MS_MAX < latest_ms:
        found.append(
            f"the manifest is as of {manifest.as_of_ms} ms, and a record was stored at {latest_ms}"
        )
    return found
