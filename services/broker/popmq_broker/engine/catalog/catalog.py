"""Topics, groups, floors and the permission change here, and only here: a record of the log first
(core/catalog/catalog.py). The files of config/ are written behind, every few seconds.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from popmq_broker.core.catalog import tables
from popmq_broker.core.catalog.catalog import (
    CATALOG_FILE,
    NO_ACCESS,
    CatalogKind,
    CatalogMarks,
    Change,
    StoredAccess,
    Value,
    access_fields,
    encode,
    encode_marks,
)
from popmq_broker.core.catalog.tables import GroupConfig, TopicConfig
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.starts import StartKey
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import append_behind
from popmq_broker.engine.journal.position_changes import apply_position_changes, position_drafts
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.queues.drafts import Draft, own_draft
from popmq_common.errors import DiskFull, TooManyRequests
from popmq_common.records.names import CATALOG_TOPIC, is_user_topic

TOPICS_FILE: Final = "topics.json"
GROUPS_FILE: Final = "subscriptionGroup.json"
FLOORS_FILE: Final = "topicFloors.json"
PERMISSION_FILE: Final = "permission.json"
PEERS_FILE: Final = "peers.json"
ACCESS_FILE: Final = "access.json"
WRITTEN_TOGETHER: Final = 500
"""Rows, before other work gets its turn."""
Row = TypeVar("Row")


class Catalog:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, lease_state: LeaseState
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._being_saved: dict[CatalogKind, int] = {}
        self._saving = asyncio.Lock()
        runtime.retention_holds["catalog"] = self._needed_from

    def change(
        self,
        *changes: Change,
        positions: Mapping[QueueKey, int] | None = None,
        forgotten: Sequence[StartKey] = (),
    ) -> None:
        """Append the changes and then `positions`, all or none, and apply them. Raises `DiskFull`,
        `TooManyRequests`, `StoreClosed`; then nothing has changed.

        `positions`: positions that change with it. `forgotten`: starts of a group that is deleted.
        Whoever answers for it awaits the log's end first.
        """
        runtime, catalog_state, lease_state = self._runtime, self._catalog_state, self._lease_state
        now_ms, log_end = runtime.clock.now_ms(), runtime.store.log_end
        drafts = [_draft(one, now_ms) for one in changes]
        drafts += position_drafts(runtime, positions or {}, now_ms)
        drafts += [journal.start(runtime, key, None, now_ms) for key in forgotten]
        appended = append_behind(runtime, lease_state, [], drafts, now_ms)
        for one in changes:
            catalog_state.unsaved.setdefault(one.kind, log_end)
            apply(catalog_state, one)
        apply_position_changes(runtime, lease_state, positions or {}, appended[len(changes) :])
        for start in forgotten:
            del catalog_state.starts[start]

    def begin_epoch(self, epoch: int | None = None) -> None:
        """The directory was started once more, with replicas in that `epoch`. Raises as
        `change`."""
        state = self._catalog_state
        number = state.epoch + 1 if epoch is None else epoch
        self.change(Change(CatalogKind.EPOCH, state.identity, number))

    async def write_whole(self, until: int) -> None:
        """Before the log loses what lies before `until`: all of the catalog is written again, if
        that is among it. A disk that is full leaves it to the next time."""
        state = self._catalog_state
        if state.whole_from is not None and state.whole_from >= until:
            return
        begin, store = self._runtime.store.log_end, self._runtime.store
        try:
            names = rows(state)
            for at in range(0, len(names), WRITTEN_TOGETHER):
                some = (row(state, *name) for name in names[at : at + WRITTEN_TOGETHER])
                self.change(*(change for change in some if change is not None))
                await asyncio.sleep(0)
            self.change(Change(CatalogKind.WHOLE, "", begin))
        except (DiskFull, TooManyRequests) as full:
            self._runtime.log.warning("catalog.not_written_again", reason=str(full))
            return
        await store.durable(store.log_end)

    def write_all(self) -> None:
        """The files are not what is in memory: all of them are written with the next `save`."""
        for kind in CatalogKind:
            self._catalog_state.unsaved.setdefault(kind, 0)

    async def save(self) -> None:
        """Write the files of what changed since the last time.

        Raises `DiskFull`; the next call tries again, every few seconds.
        """
        async with self._saving:
            catalog_state = self._catalog_state
            if not catalog_state.unsaved:
                return
            self._being_saved, catalog_state.unsaved = catalog_state.unsaved, {}
            try:
                await self._save(set(self._being_saved))
            except BaseException:
                catalog_state.unsaved |= self._being_saved
                raise
            finally:
                self._being_saved = {}

    def _needed_from(self) -> int | None:
        """The oldest change that is in the log alone."""
        unsaved = (*self._catalog_state.unsaved.values(), *self._being_saved.values())
        return min(unsaved, default=None)

    async def _save(self, kinds: set[CatalogKind]) -> None:
        """Files of one moment, and then up to where in the log they go."""
        store, log_end = self._runtime.store, self._runtime.store.log_end
        marks = CatalogMarks(log_end, self._catalog_state.whole_from, self._catalog_state.epoch)
        texts = self._texts(kinds)
        await store.durable(log_end)
        for name, text in texts:
            await store.save_config(name, await text)
        await store.save_config(CATALOG_FILE, encode_marks(marks))

    def _texts(self, kinds: set[CatalogKind]) -> "list[tuple[str, asyncio.Task[str]]]":
        """Large tables take their time, so a thread writes them; of copies, made now."""
        catalog_state = self._catalog_state
        now_ms = self._runtime.clock.now_ms()
        found = []
        if CatalogKind.FLOORS in kinds:
            floors = {topic: dict(queues) for topic, queues in catalog_state.floors.items()}
            found.append((FLOORS_FILE, asyncio.to_thread(json.dumps, floors)))
        if CatalogKind.TOPIC in kinds:
            topics = dict(catalog_state.topics), catalog_state.topic_versions.current, now_ms
            found.append((TOPICS_FILE, asyncio.to_thread(tables.encode_topics, *topics)))
        if CatalogKind.GROUP in kinds:
            groups = dict(catalog_state.groups), catalog_state.groups_version, now_ms
            found.append((GROUPS_FILE, asyncio.to_thread(tables.encode_groups, *groups)))
        if CatalogKind.PERM in kinds:
            perm = {"perm": catalog_state.perm}
            found.append((PERMISSION_FILE, asyncio.to_thread(json.dumps, perm)))
        if CatalogKind.PEER in kinds:
            found.append((PEERS_FILE, asyncio.to_thread(json.dumps, dict(catalog_state.peers))))
        if CatalogKind.ACCESS in kinds and catalog_state.access.table:
            access = access_fields(catalog_state.access)
            found.append((ACCESS_FILE, asyncio.to_thread(json.dumps, access)))
        return [(name, asyncio.ensure_future(text)) for name, text in found]


def apply(catalog_state: CatalogState, change: Change) -> None:
    """What a record says holds from now on."""
    value = change.value
    if change.kind is CatalogKind.TOPIC:
        before = change.name in catalog_state.topics
        _put(catalog_state.topics, change.name, value if isinstance(value, TopicConfig) else None)
        if is_user_topic(change.name):
            catalog_state.user_topic_count += (change.name in catalog_state.topics) - before
        catalog_state.topic_versions.changed(change.name)
    elif change.kind is CatalogKind.GROUP:
        _put(catalog_state.groups, change.name, value if isinstance(value, GroupConfig) else None)
        catalog_state.groups_version += 1
    elif change.kind is CatalogKind.FLOORS:
        _put(catalog_state.floors, change.name, value if isinstance(value, dict) else None)
    elif change.kind is CatalogKind.PEER:
        _put(catalog_state.peers, change.name, value if isinstance(value, str) else None)
    elif change.kind is CatalogKind.ACCESS:
        catalog_state.access = value if isinstance(value, StoredAccess) else NO_ACCESS
    elif change.kind is CatalogKind.EPOCH:
        catalog_state.epoch = value if isinstance(value, int) else 0
    elif change.kind is CatalogKind.WHOLE:
        catalog_state.whole_from = value if isinstance(value, int) else None
    elif isinstance(value, int):
        catalog_state.perm = value
        catalog_state.topic_versions.all_changed()


def rows(catalog_state: CatalogState) -> list[tuple[CatalogKind, str]]:
    """Of all there is."""
    return [
        *((CatalogKind.TOPIC, name) for name in catalog_state.topics),
        *((CatalogKind.GROUP, name) for name in catalog_state.groups),
        *((CatalogKind.FLOORS, name) for name in catalog_state.floors),
        *((CatalogKind.PEER, name) for name in catalog_state.peers),
        (CatalogKind.PERM, ""),
        (CatalogKind.ACCESS, ""),
        (CatalogKind.EPOCH, catalog_state.identity),
    ]


def row(catalog_state: CatalogState, kind: CatalogKind, name: str) -> Change | None:
    """As it is now; None: it is gone."""
    value: Value | None = {
        CatalogKind.TOPIC: catalog_state.topics.get(name),
        CatalogKind.GROUP: catalog_state.groups.get(name),
        CatalogKind.FLOORS: catalog_state.floors.get(name),
        CatalogKind.PEER: catalog_state.peers.get(name),
        CatalogKind.PERM: catalog_state.perm,
        CatalogKind.ACCESS: catalog_state.access if catalog_state.access.table else None,
        CatalogKind.EPOCH: catalog_state.epoch,
    }[kind]
    return None if value is None else Change(kind, name, value)


def _put(table: dict[str, Row], name: str, value: Row | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def _draft(change: Change, now_ms: int) -> Draft:
    return own_draft(CATALOG_TOPIC, change.kind, encode(change), now_ms)
