"""Start: topics, groups, floors and the permission, as the files of config/ and the log behind them
say (core/catalog/catalog.py)."""

import json
from functools import partial

from popmq_broker.core.catalog import tables
from popmq_broker.core.catalog.catalog import (
    CATALOG_FILE,
    NO_ACCESS,
    CatalogMarks,
    Change,
    StoredAccess,
    access_of,
    decode,
    decode_marks,
)
from popmq_broker.core.catalog.tables import PERM_BOTH
from popmq_broker.core.catalog.topic_versions import TopicVersions
from popmq_broker.core.store.queue_entry import DAMAGED
from popmq_broker.engine.catalog.catalog import (
    ACCESS_FILE,
    FLOORS_FILE,
    GROUPS_FILE,
    PEERS_FILE,
    PERMISSION_FILE,
    TOPICS_FILE,
    apply,
)
from popmq_broker.engine.catalog.permission import decode_permission
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.seek import entries_from
from popmq_common.errors import Corrupt
from popmq_common.records.names import CATALOG_TOPIC, is_user_topic
from popmq_common.records.record import Record


def saved_marks(runtime: Runtime) -> CatalogMarks:
    """Raises `Corrupt`."""
    return runtime.store.load_config(CATALOG_FILE, decode_marks) or CatalogMarks()


def load(runtime: Runtime, catalog_state: CatalogState, until: int) -> None:
    """Changes behind `until` are left to the caller. Raises `Corrupt` naming the file, or the place
    in the log."""
    load_config = runtime.store.load_config
    topics = load_config(TOPICS_FILE, partial(tables.decode_topics, where=TOPICS_FILE))
    if topics is not None:
        catalog_state.topics, version = topics
        catalog_state.topic_versions = TopicVersions(version)
        catalog_state.user_topic_count = sum(map(is_user_topic, catalog_state.topics))
    groups = load_config(GROUPS_FILE, partial(tables.decode_groups, where=GROUPS_FILE))
    if groups is not None:
        catalog_state.groups, catalog_state.groups_version = groups
    catalog_state.floors = load_config(FLOORS_FILE, _decode_floors) or {}
    catalog_state.perm = load_config(PERMISSION_FILE, decode_permission) or PERM_BOTH
    catalog_state.peers = load_config(PEERS_FILE, _decode_peers) or {}
    catalog_state.access = load_config(ACCESS_FILE, _decode_access) or NO_ACCESS
    known_to, catalog_state.whole_from, catalog_state.epoch = saved_marks(runtime)
    if not runtime.store.log_end:
        catalog_state.whole_from = 0
    count = _read_changes(runtime, catalog_state, known_to, until)
    runtime.log.info(
        "catalog.read",
        topics=len(catalog_state.topics),
        groups=len(catalog_state.groups),
        count=count,
    )


def _read_changes(runtime: Runtime, catalog_state: CatalogState, known_to: int, until: int) -> int:
    """How many there are between `known_to` and `until`."""
    count = 0
    first = runtime.store.first_behind(CATALOG_TOPIC, 0, known_to)
    for _, entry in entries_from(runtime.store, CATALOG_TOPIC, 0, first):
        if until <= entry.log_offset and entry is not DAMAGED:
            break
        record = runtime.store.read(entry.log_offset, entry.size_bytes)
        if record is not None:
            take(catalog_state, record, known_to)
            count += 1
    return count


def take(catalog_state: CatalogState, record: Record, since: int) -> Change:
    """A record of the catalog; the file of its kind is from before `since`. Raises `Corrupt`."""
    change = decode(record.body, where=f"catalog, log offset {record.log_offset}")
    apply(catalog_state, change)
    catalog_state.unsaved.setdefault(change.kind, since)
    return change


def _decode_floors(text: str) -> dict[str, dict[int, int]]:
    try:
        return {
            topic: {int(i): int(floor) for i, floor in queues.items()}
            for topic, queues in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError) as wrong:
        reason = f"no table of floors: {wrong!r}"
        raise Corrupt(path=FLOORS_FILE, offset=0, reason=reason) from wrong


def _decode_access(text: str) -> StoredAccess:
    try:
        return access_of(json.loads(text))
    except (KeyError, TypeError, ValueError) as wrong:
        reason = f"no table of users: {wrong!r}"
        raise Corrupt(path=ACCESS_FILE, offset=0, reason=reason) from wrong


def _decode_peers(text: str) -> dict[str, str]:
    try:
        return {str(name): str(identity) for name, identity in json.loads(text).items()}
    except (ValueError, AttributeError) as wrong:
        raise Corrupt(path=PEERS_FILE, offset=0, reason=f"no brokers: {wrong!r}") from wrong
