"""The catalog: topics, groups, floors of deleted topics and the broker's permission. Each change is
a record of the log before it holds.

    rmq_sys_popmq_catalog   one queue, a record for each change, in order:
                            {"k": kind, "n": name, "v": value}; without v it is gone
                            topic   name → as in topics.json
                            group   name → as in subscriptionGroup.json
                            floors  topic → {queue id: first offset of what came after}
                            perm    ""   → RocketMQ's bits
                            peer    name of another broker → identity of its data directory
                            access  ""   → users and policies of the cluster, one table
                            epoch   identity of the data directory → how often it was started
                            whole   ""   → log offset: from there on the records alone tell all
    config/catalog.json     {"logEnd": N, "wholeFrom": M, "epoch": E}: the files of config/ hold all
                            changes before N

The files are written now and then, for RocketMQ and for a quick start. A start reads them, and the
records from N on. A record says what holds from then on, so one that is read again does no harm.
Before retention takes the first of the records that tell all, all of it is written again, so the
log alone suffices at any time (`popmq store rebuild --settings`).
"""

import json
from enum import StrEnum
from typing import Any, Final, NamedTuple

from popmq_broker.core.catalog.tables import (
    GroupConfig,
    TopicConfig,
    group_fields,
    group_of,
    topic_fields,
    topic_of,
)
from popmq_common.errors import Corrupt

CATALOG_FILE: Final = "catalog.json"
Floors = dict[int, int]


class CatalogKind(StrEnum):
    TOPIC = "topic"
    GROUP = "group"
    FLOORS = "floors"
    PERM = "perm"
    PEER = "peer"
    ACCESS = "access"
    EPOCH = "epoch"
    WHOLE = "whole"


class AccessVersion(NamedTuple):
    """Of two tables the one with the greater is newer."""

    version: int = 0
    """0: there is none."""
    stamp: str = ""


class StoredAccess(NamedTuple):
    """Who may do what, as proxies decide it; to brokers it is JSON and no more."""

    version: AccessVersion = AccessVersion()
    table: str = ""


NO_ACCESS: Final = StoredAccess()


Value = TopicConfig | GroupConfig | Floors | StoredAccess | int | str


class Change(NamedTuple):
    kind: CatalogKind
    name: str
    value: Value | None
    """None: it is gone."""


def topic(config: TopicConfig) -> Change:
    return Change(CatalogKind.TOPIC, config.name, config)


def group(config: GroupConfig) -> Change:
    return Change(CatalogKind.GROUP, config.name, config)


def encode(change: Change) -> bytes:
    fields: dict[str, Any] = {"k": change.kind, "n": change.name}
    value = change.value
    if isinstance(value, TopicConfig):
        fields["v"] = topic_fields(value)
    elif isinstance(value, GroupConfig):
        fields["v"] = group_fields(value)
    elif isinstance(value, StoredAccess):
        fields["v"] = access_fields(value)
    elif value is not None:
        fields["v"] = value
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(body: bytes, *, where: str) -> Change:
    """Raises `Corrupt` naming `where`."""
    try:
        fields = json.loads(body)
        kind, name = CatalogKind(fields["k"]), str(fields["n"])
        return Change(kind, name, _value(kind, fields["v"]) if "v" in fields else None)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no change: {wrong!r}") from wrong


def access_fields(access: StoredAccess) -> dict[str, Any]:
    version, stamp = access.version
    return {"version": version, "stamp": stamp, "table": json.loads(access.table)}


def access_of(raw: Any) -> StoredAccess:
    """Raises `KeyError`, `TypeError`, `ValueError`."""
    table = json.dumps(raw["table"], separators=(",", ":"))
    return StoredAccess(AccessVersion(int(raw["version"]), str(raw["stamp"])), table)


def _value(kind: CatalogKind, raw: Any) -> Value:
    if kind is CatalogKind.TOPIC:
        return topic_of(raw)
    if kind is CatalogKind.GROUP:
        return group_of(raw)
    if kind is CatalogKind.FLOORS:
        return {int(queue_id): int(floor) for queue_id, floor in raw.items()}
    if kind is CatalogKind.ACCESS:
        return access_of(raw)
    return str(raw) if kind is CatalogKind.PEER else int(raw)


class CatalogMarks(NamedTuple):
    """What catalog.json says."""

    log_end: int = 0
    """The files of config/ hold all changes before it."""
    whole_from: int | None = None
    """From there on the records alone tell all; None: that is not known, in a directory of an
    earlier version say."""
    epoch: int = 0
    """How often the directory was started."""


def encode_marks(marks: CatalogMarks) -> str:
    """Of catalog.json."""
    log_end, whole_from, epoch = marks
    return json.dumps({"logEnd": log_end, "wholeFrom": whole_from, "epoch": epoch})


def decode_marks(text: str) -> CatalogMarks:
    """Raises `Corrupt`."""
    try:
        fields = json.loads(text)
        whole_from = fields.get("wholeFrom")
        return CatalogMarks(
            int(fields["logEnd"]),
            None if whole_from is None else int(whole_from),
            int(fields.get("epoch", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=CATALOG_FILE, offset=0, reason=f"no log end: {wrong!r}") from wrong
