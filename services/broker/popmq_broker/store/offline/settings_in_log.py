"""Does the log of a stopped broker tell all topics, groups, users and the permission?"""

from pathlib import Path
from typing import Final

from popmq_broker.core.catalog.catalog import CatalogKind, decode
from popmq_broker.store.check.check import open_log
from popmq_broker.store.files.files import OsFiles
from popmq_broker.store.log.commit_log import ScanEnd
from popmq_broker.store.offline.closed_directory import held
from popmq_common.errors import BadRequest
from popmq_common.records.names import CATALOG_TOPIC

FIRST_EPOCH: Final = 1


def check_whole(data_dir: Path) -> None:
    """Reads the log. Raises `BadRequest` if it does not, and as `held`."""
    with held(data_dir) as files:
        if not _is_whole(files, data_dir):
            raise BadRequest(
                reason="the log does not tell all topics and groups: no broker of this version has "
                "run on this directory. Start one, and the log will"
            )


def _is_whole(files: OsFiles, data_dir: Path) -> bool:
    commit_log = open_log(files, data_dir)
    try:
        start, whole = commit_log.start, False
        for record, _ in commit_log.scan(start, ScanEnd(start)):
            if record.topic != CATALOG_TOPIC:
                continue
            change = decode(record.body, where=f"catalog, log offset {record.log_offset}")
            value = change.value if isinstance(change.value, int) else -1
            if change.kind is CatalogKind.EPOCH and value == FIRST_EPOCH:
                whole = start == 0  # a directory that this version has begun
            elif change.kind is CatalogKind.WHOLE:
                whole = value >= start
        return whole
    finally:
        commit_log.close()
