"""Committed offsets ⇄ RocketMQ's `consumerOffset.json`, and the floors of deleted topics.

    {"dataVersion": V, "popmqLogEnd": 4711, "popmqExpired": {"topic@group": {1: 2}},
     "popmqStarts": {"topic@group": [1795478400000, 12]},
     "popmqPasses": {"topic@group": {"0": [1, "a%7C%7Cb"]}},
     "offsetTable": {"topic@group": {0: 123, 1: 5}}}

RocketMQ writes the queue ids without quotes and reads them either way, and so do we. The revive
group's entry holds, for each revive queue, the last revive offset that no live lease needs: the
replay at the next start begins behind it (last processed, not next: RocketMQ's convention).
`popmqLogEnd` is the log's end when the offsets were taken: a position that was moved before that
is in the table already. `popmqExpired` counts the messages that retention has deleted before the
group was done with them. `popmqStarts` tells where groups started (core/groups/starts.py): the
moment in ms, and how many messages were skipped; then, where a consumer named the place itself,
that place. `popmqPasses` has the way in which the group goes over messages of a queue, if it is not
the one that needs no record (core/groups/passing.py): the filter's kind and its expression, with
every sign but letters and digits as in a URL. RocketMQ passes over these names.

Source: RocketMQ ConsumerOffsetManager, PopReviveService.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from popmq_broker.core.groups.starts import GroupStart, StartKey
from popmq_common.errors import Corrupt

_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)(\s*:)")


class QueueKey(NamedTuple):
    """One queue as one group sees it. `topic` is the stored one: retry topics are their own."""

    group: str
    topic: str
    queue_id: int


class Passing(NamedTuple):
    """The way in which a group goes over a queue."""

    kind: int = 0
    """Of the filter: 0 none, 1 tags, 2 SQL."""
    expression: str = ""


class OffsetTable(NamedTuple):
    log_end: int
    """The log's end when the offsets were taken."""
    offsets: Mapping[QueueKey, int]
    """Next offset to hand out, by queue and group."""
    expired: Mapping[QueueKey, int] = {}
    """Deleted by retention before the group was done with them; queues with none are missing."""
    starts: Mapping[StartKey, GroupStart] = {}
    passes: Mapping[QueueKey, Passing] = {}
    """In which way the group goes over messages, where that was told by a record."""


def encode(table: OffsetTable, now_ms: int) -> str:
    version = json.dumps({"counter": 0, "stateVersion": 0, "timestamp": now_ms})
    head = f' "dataVersion": {version},\n "popmqLogEnd": {table.log_end},\n'
    if table.expired:
        head += f' "popmqExpired": {{\n{_rows(table.expired)}\n }},\n'
    if table.starts:
        head += f' "popmqStarts": {{\n{_start_rows(table.starts)}\n }},\n'
    if table.passes:
        head += f' "popmqPasses": {json.dumps(_passes_rows(table.passes))},\n'
    return f'{{\n{head} "offsetTable": {{\n{_rows(table.offsets)}\n }}\n}}\n'


def _rows(numbers: Mapping[QueueKey, int]) -> str:
    queues_of: dict[str, dict[int, int]] = {}
    for key, number in sorted(numbers.items()):
        queues_of.setdefault(f"{key.topic}@{key.group}", {})[key.queue_id] = number
    return ",\n".join(
        f"  {json.dumps(name)}: {{{','.join(f'{queue}:{at}' for queue, at in queues.items())}}}"
        for name, queues in queues_of.items()
    )


def _start_rows(starts: Mapping[StartKey, GroupStart]) -> str:
    return ",\n".join(
        f"  {json.dumps(f'{key.topic}@{key.group}')}: {json.dumps(_start_row(start))}"
        for key, start in sorted(starts.items())
    )


def _start_row(start: GroupStart) -> tuple[int | str, ...]:
    return start if start.consume_from else start[:2]


def decode(text: str, *, where: str) -> OffsetTable:
    """Raises `Corrupt` naming `where`."""
    try:
        fields = json.loads(_BARE_KEY.sub(r'\1"\2"\3', text))
        return OffsetTable(
            int(fields.get("popmqLogEnd", 0)),
            _numbers(fields["offsetTable"]),
            _numbers(fields.get("popmqExpired", {})),
            _starts(fields.get("popmqStarts", {})),
            _passes(fields.get("popmqPasses", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=where, offset=0, reason=f"no offset table: {wrong!r}") from wrong


def _passes_rows(passes: Mapping[QueueKey, Passing]) -> dict[str, dict[str, list[int | str]]]:
    """Expressions are quoted: a bare key in one would be taken for a queue's."""
    rows: dict[str, dict[str, list[int | str]]] = {}
    for key, (kind, expression) in sorted(passes.items()):
        queues = rows.setdefault(f"{key.topic}@{key.group}", {})
        queues[str(key.queue_id)] = [kind, quote(expression, safe="")]
    return rows


def _passes(rows: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[QueueKey, Passing]:
    found = {}
    for name, queues in rows.items():
        topic, _, group = name.partition("@")
        for queue, (kind, expression) in queues.items():
            found[QueueKey(group, topic, int(queue))] = Passing(int(kind), unquote(expression))
    return found


def _numbers(rows: Mapping[str, Mapping[str, int]]) -> dict[QueueKey, int]:
    found = {}
    for name, queues in rows.items():
        topic, _, group = name.partition("@")  # of RocketMQ's, a group's name may have another
        for queue, number in queues.items():
            found[QueueKey(group, topic, int(queue))] = int(number)
    return found


def _starts(rows: Mapping[str, Sequence[Any]]) -> dict[StartKey, GroupStart]:
    found = {}
    for name, (at_ms, skipped, *place) in rows.items():
        topic, _, group = name.partition("@")
        consume_from, time_ms = place or ("", 0)
        start = GroupStart(int(at_ms), int(skipped), str(consume_from), int(time_ms))
        found[StartKey(group, topic)] = start
    return found
