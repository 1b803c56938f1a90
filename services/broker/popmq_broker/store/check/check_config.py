"""The files of config/ and their backups: whole, readable, and in agreement with the queues."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from popmq_broker.core.catalog import tables
from popmq_broker.core.catalog.catalog import CATALOG_FILE, CatalogKind, CatalogMarks, decode_marks
from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable
from popmq_broker.core.store import damage, json_checksum
from popmq_broker.core.store.damage import DAMAGE_FILE
from popmq_broker.core.timers import rocketmq_timer
from popmq_broker.store.check.findings import Findings
from popmq_broker.store.files.files import Files
from popmq_broker.store.queues import queue_ends
from popmq_broker.store.queues.queue_ends import QUEUE_ENDS_FILE, QueueId
from popmq_common.errors import Corrupt
from popmq_common.records.names import REVIVE_GROUP

TOPICS_FILE: Final = "topics.json"
OFFSETS_FILE: Final = "consumerOffset.json"
FLOORS_FILE: Final = "topicFloors.json"
_DECODERS: Final[Mapping[str, Callable[[str], Any]]] = {
    TOPICS_FILE: partial(tables.decode_topics, where=TOPICS_FILE),
    "subscriptionGroup.json": partial(tables.decode_groups, where="subscriptionGroup.json"),
    OFFSETS_FILE: partial(offsets.decode, where=OFFSETS_FILE),
    FLOORS_FILE: json.loads,
    "permission.json": json.loads,
    "access.json": json.loads,
    QUEUE_ENDS_FILE: queue_ends.decode,
    CATALOG_FILE: decode_marks,
    DAMAGE_FILE: damage.decode,
}


Changes = dict[tuple[CatalogKind, str], tuple[int, bool]]
"""What the catalog's records say last: by kind and name, the log offset and whether it is there."""


def check_config(
    files: Files,
    folder: Path,
    findings: Findings,
    queues: Mapping[QueueId, tuple[int, int]],
    changes: Changes,
) -> None:
    """`queues`: (first, next offset) of each queue, by what the log says."""
    current: dict[str, Any] = {}
    for file in files.names(folder):
        name = file.removesuffix(".bak")
        data = files.read(folder / file)
        if file.endswith(".tmp") or name == rocketmq_timer.CHECK_NAME or not data:
            continue
        decode = _DECODERS.get(name, str)
        try:
            value = decode(json_checksum.verify(data))
        except (Corrupt, ValueError) as wrong:
            findings.add(folder / file, 0, str(wrong))
            continue
        if file == name:
            current[name] = value
    for name in _DECODERS:
        if not files.exists(folder / name) and files.exists(folder / f"{name}.bak"):
            findings.add(folder / name, 0, "it is missing; a start takes the backup")
    if OFFSETS_FILE in current:
        _check_positions(folder / OFFSETS_FILE, current[OFFSETS_FILE], findings, queues)
    if DAMAGE_FILE in current:
        for passer, ranges in sorted(current[DAMAGE_FILE].passed.items()):
            place = f"{passer.topic}/{passer.queue_id}"
            reason = f"group {passer.group} went over {ranges.count} messages of {place}, "
            reason += "which could not be read"
            findings.add(folder / DAMAGE_FILE, 0, reason)
    if TOPICS_FILE in current:
        for topic in sorted({topic for topic, _ in queues} - _known_topics(current, changes)):
            reason = f"topic {topic} has messages in the log and is in no table"
            findings.add(folder / TOPICS_FILE, 0, reason)


def _known_topics(current: Mapping[str, Any], changes: Changes) -> set[str]:
    """Those that are there or were deleted, by the files and the catalog's records behind them."""
    written_to = current.get(CATALOG_FILE, CatalogMarks()).log_end
    known = set(current[TOPICS_FILE][0]) | set(current.get(FLOORS_FILE) or {})
    for (kind, name), (log_offset, is_there) in changes.items():
        if (
            kind in (CatalogKind.TOPIC, CatalogKind.FLOORS)
            and log_offset >= written_to
            and is_there
        ):
            known.add(name)
    return known


def _check_positions(
    path: Path, table: OffsetTable, findings: Findings, queues: Mapping[QueueId, tuple[int, int]]
) -> None:
    for key, position in table.offsets.items():
        _, end = queues.get((key.topic, key.queue_id), (0, 0))
        # the revive group's is the last one that is done with, not the next
        if position > end - (key.group == REVIVE_GROUP):
            reason = f"group {key.group} stands at {position} of {key.topic}/{key.queue_id}, "
            findings.add(path, 0, f"{reason}which ends at {end}")
