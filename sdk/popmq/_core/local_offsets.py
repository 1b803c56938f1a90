"""Offsets of a broadcast consumer ⇄ RocketMQ's `offsets.json`.

    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:42}}

That is what its JSON library writes for a map whose keys are objects; other JSON readers refuse it.
Spaces may stand anywhere, and names of a key come in any order.

Source: RocketMQ LocalFileOffsetStore, OffsetSerializeWrapper.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_HEAD: Final = re.compile(r'\s*\{\s*"offsetTable"\s*:\s*\{(.*)\}\s*\}\s*', re.DOTALL)
_ROW: Final = re.compile(r"\s*(\{[^{}]*\})\s*:\s*(\d+)\s*(,|$)")


class LocalQueue(NamedTuple):
    topic: str
    broker: str
    queue_id: int


class NoOffsets(ValueError):
    """The text is no `offsets.json`."""


def encode(offsets: Mapping[LocalQueue, int]) -> str:
    rows = (
        json.dumps(
            {"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic},
            separators=(",", ":"),
        )
        + f":{offset}"
        for queue, offset in sorted(offsets.items())
    )
    return '{"offsetTable":{' + ",".join(rows) + "}}\n"


def decode(text: str) -> dict[LocalQueue, int]:
    """Raises `NoOffsets`."""
    head = _HEAD.fullmatch(text)
    if head is None:
        raise NoOffsets("it has no offsetTable")
    rows, at, found = head[1], 0, {}
    while at < len(rows.rstrip()):
        row = _ROW.match(rows, at)
        if row is None:
            raise NoOffsets(f"no queue and offset at {rows[at : at + 20]!r}")
        found[_queue(row[1])] = int(row[2])
        at = row.end()
    return found


def _queue(text: str) -> LocalQueue:
    try:
        fields = json.loads(text)
        return LocalQueue(str(fields["topic"]), str(fields["brokerName"]), int(fields["queueId"]))
    except (ValueError, KeyError, TypeError) as wrong:
        raise NoOffsets(f"{text!r} is no queue") from wrong
