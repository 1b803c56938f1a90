"""Committed offsets ⇄ RocketMQ's `consumerOffset.json`, and the floors of deleted topics.

    {"dataVersion": V, "popmqLogEnd": 4711, "offsetTable": {"topic@group": {0: 123, 1: 5}}}

RocketMQ writes the queue ids without quotes and reads them either way, and so do we. The revive
group's entry holds, for each revive queue, the last revive offset that no live lease needs: the
replay at the next start begins behind it (last processed, not next: RocketMQ's convention).
`popmqLogEnd` is the log's end when the offsets were taken: a position that was moved before that
is in the table already. RocketMQ passes over the name.

Source: RocketMQ ConsumerOffsetManager, PopReviveService.
"""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from popmq_common.errors import Corrupt

_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)(\s*:)")


class QueueKey(NamedTuple):
    """One queue as one group sees it. `topic` is the stored one: retry topics are their own."""

    group: str
    topic: str
    queue_id: int


class OffsetTable(NamedTuple):
    log_end: int
    """The log's end when the offsets were taken."""
    offsets: Mapping[QueueKey, int]
    """Next offset to hand out, by queue and group."""


def encode(table: OffsetTable, now_ms: int) -> str:
    queues_of: dict[str, dict[int, int]] = {}
    for key, offset in sorted(table.offsets.items()):
        queues_of.setdefault(f"{key.topic}@{key.group}", {})[key.queue_id] = offset
    rows = ",\n".join(
        f"  {json.dumps(name)}: {{{','.join(f'{queue}:{at}' for queue, at in queues.items())}}}"
        for name, queues in queues_of.items()
    )
    version = json.dumps({"counter": 0, "stateVersion": 0, "timestamp": now_ms})
    head = f' "dataVersion": {version},\n "popmqLogEnd": {table.log_end},\n'
    return f'{{\n{head} "offsetTable": {{\n{rows}\n }}\n}}\n'


def decode(text: str, *, where: str) -> OffsetTable:
    """Raises `Corrupt` naming `where`."""
    try:
        fields = json.loads(_BARE_KEY.sub(r'\1"\2"\3', text))
        offsets = {}
        for name, queues in fields["offsetTable"].items():
            topic, _, group = name.rpartition("@")
            for queue, offset in queues.items():
                offsets[QueueKey(group, topic, int(queue))] = int(offset)
        return OffsetTable(int(fields.get("popmqLogEnd", 0)), offsets)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=where, offset=0, reason=f"no offset table: {wrong!r}") from wrong
