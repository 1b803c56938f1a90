"""Two readings of the same files → what differs."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rocketmq_store.mix import Item
from rocketmq_store.ours import Opened, Place
from rocketmq_store.theirs import Key, Line

SHOWN_MAX: Final = 10


class Different(Exception):
    """The two brokers do not read the same."""


def agree(what: str, differences: Iterable[str]) -> None:
    """Raises `Different` with the first of them."""
    found = list(differences)
    if found:
        shown = "\n  ".join(found[:SHOWN_MAX])
        raise Different(f"{what}: {len(found)} differences\n  {shown}")


def by_place(rows: Iterable[Line]) -> dict[Place, Line]:
    placed: dict[Place, Line] = {}
    for row in rows:
        place = (row["topic"], row["queue"], row["offset"])
        if place in placed:
            raise Different(f"{place} was read twice")
        placed[place] = row
    return placed


def rows_differ(ours: Mapping[Place, Line], theirs: Mapping[Place, Line]) -> Iterable[str]:
    """What PopMQ has and RocketMQ has not, or has otherwise."""
    for place, row in ours.items():
        other = theirs.get(place)
        if other is None:
            yield f"{place} is missing"
        elif other != row:
            parts = [
                f"{name}: {row[name]!r}, {other[name]!r}"
                for name in row
                if row[name] != other[name]
            ]
            yield f"{place}: {'; '.join(parts)}"


def bodies_differ(items: Iterable[Item], stored: Mapping[int, Line], pool: bytes) -> Iterable[str]:
    """Every item that was sent is stored once, as it was sent."""
    for item in items:
        row = stored.get(item.number)
        if row is None:
            yield f"message {item.number} of {item.topic} is missing"
            continue
        if not item.zip and row["body"] != hashlib.sha1(item.body(pool)).hexdigest():
            yield f"message {item.number}: another body"
        kept = row["properties"]
        wanted = {**item.properties, **({"TAGS": item.tag} if item.tag else {})}
        if item.keys:
            wanted["KEYS"] = " ".join(item.keys)
        for name, value in wanted.items():
            if kept.get(name) != value:
                yield f"message {item.number}: property {name} is {kept.get(name)!r}, not {value!r}"


def keys_differ(wanted: Mapping[Key, set[int]], found: Mapping[Key, set[int]]) -> Iterable[str]:
    """Every message is found by each of its keys and by its id, and no other."""
    for key, places in wanted.items():
        if found.get(key) != places:
            yield f"{key}: messages at {sorted(places)}, found {sorted(found.get(key, ()))}"


class Tables:
    """The lines of java/State.java."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.topics: dict[str, Any] = {}
        self.groups: dict[str, Any] = {}
        self.ends: dict[tuple[str, int], tuple[int, int]] = {}
        self.positions: dict[tuple[str, str, int], int] = {}
        for line in lines:
            if "topic" in line:
                self.topics[line["topic"]] = line["config"]
            elif "group" in line:
                self.groups[line["group"]] = line["config"]
            elif "of" in line:
                self.positions[line["of"], line["in"], line["queue"]] = line["position"]
            else:
                self.ends[line["in"], line["queue"]] = (line["min"], line["max"])


def tables_differ(ours: Opened, theirs: Tables) -> Iterable[str]:
    """Topics, groups, ends of queues and positions that PopMQ has and RocketMQ has otherwise.

    RocketMQ may have grown since: it revives what is due, and has system topics of its own.
    """
    for name, queues in ours.topics.items():
        config = theirs.topics.get(name)
        if config is None or config["readQueueNums"] != queues:
            yield f"topic {name}: {queues} queues, {config}"
    for group in ours.groups - theirs.groups.keys():
        yield f"group {group} is missing"
    for queue, (low, high) in ours.ends.items():
        other = theirs.ends.get(queue, (0, 0))
        if other[0] != low or other[1] < high:
            yield f"queue {queue}: {low} to {high}, {other}"
    for key, position in ours.positions.items():
        if key in theirs.positions and theirs.positions[key] != position:
            yield f"position {key}: {position}, {theirs.positions[key]}"


def tables_kept(theirs: Tables, ours: Opened) -> Iterable[str]:
    """What RocketMQ had and PopMQ has otherwise. RocketMQ went on for a moment after it was asked,
    so queues may have grown and positions may have moved."""
    for name, config in theirs.topics.items():
        if ours.topics.get(name) != config["readQueueNums"]:
            yield f"topic {name}: {config}, {ours.topics.get(name)} queues"
    for group in theirs.groups.keys() - ours.groups:
        yield f"group {group} is missing"
    for queue, (low, high) in theirs.ends.items():
        other = ours.ends.get(queue, (0, 0))
        if other[0] != low or other[1] < high:
            yield f"queue {queue}: {low} to {high}, {other}"
    for key, position in theirs.positions.items():
        if ours.positions.get(key, 0) < position:
            yield f"position {key}: {position}, {ours.positions.get(key)}"
