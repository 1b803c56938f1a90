"""Where a pull consumer's offsets are kept: at the broker, or in a file of its own."""

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core import local_offsets
from popmq._core.local_offsets import LocalQueue, NoOffsets
from popmq.connection.connection import Connection
from popmq.errors import PopMQClientError, check
from popmq.log_fields import fields
from popmq.pull.assignment import Queue
from popmq_consumer.v1 import consumer_pb2 as consumer

log = logging.getLogger("popmq.pull.places")  # the name that applications configure
RETRY_PREFIX = "%RETRY%"


class OffsetFileDamaged(PopMQClientError):
    """Neither the file nor the one before it can be read."""


STARTS_FILE = "starts.json"
CLOCKS_DIFFER = timedelta(seconds=5)
"""By how much this machine's clock and a broker's may differ without a message being skipped."""


class Start(Enum):
    """Where a group begins in a topic that it has no offset in."""

    FIRST = v2.BEGINNING
    LAST = v2.END


class QueueStarts(NamedTuple):
    """Where queues begin that `load` knows no offset of."""

    now: Start | datetime
    """Those that are found when the consumer starts."""
    later: Start | datetime
    """Those that are found after that, because they are new, or their broker is, or was away."""


class OffsetStore(Protocol):
    async def start(self, where: Start | datetime) -> QueueStarts:
        """Called before anything is pulled, each time the consumer starts."""

    async def load(self, queue: Queue) -> int | None:
        """None: there is none yet."""

    async def save(self, offsets: Mapping[Queue, int]) -> None:
        """Returns when they are safe."""


class BrokerOffsetStore:
    """Never back, and on the broker's disk before the answer. What the broker will not have,
    because the group was reset or the queue is another one by now, is left out."""

    def __init__(self, connection: Connection, topic: str, group: str) -> None:
        self._connection, self._topic, self._group = connection, topic, group

    async def start(self, where: Start | datetime) -> QueueStarts:
        """The group starts at one moment at all brokers, so that no queue is late. `load` knows an
        offset of every queue then, but of one at a broker that nobody could tell the start."""
        if self._topic.startswith(RETRY_PREFIX):
            return QueueStarts(where, where)
        later = _since(now()) if where is Start.LAST else where
        request = consumer.FixStartRequest(
            group=self._connection.resource(self._group),
            topic=self._connection.resource(self._topic),
        )
        if isinstance(where, Start):
            request.policy = where.value
        else:
            request.policy = v2.TIMESTAMP
            request.timestamp.FromDatetime(where)
        check((await self._connection.ask(self._connection.consumer.FixStart, request)).status)
        return QueueStarts(later, later)

    async def load(self, queue: Queue) -> int | None:
        request = service.GetOffsetRequest(
            group=self._connection.resource(self._group),
            message_queue=message_queue(self._connection, self._topic, queue),
        )
        response = await self._connection.ask(self._connection.stub.GetOffset, request)
        if response.status.code == v2.OFFSET_NOT_FOUND:
            return None
        check(response.status)
        return int(response.offset)

    async def save(self, offsets: Mapping[Queue, int]) -> None:
        for queue, offset in offsets.items():
            request = service.UpdateOffsetRequest(
                group=self._connection.resource(self._group),
                message_queue=message_queue(self._connection, self._topic, queue),
                offset=offset,
            )
            response = await self._connection.ask(self._connection.stub.UpdateOffset, request)
            if response.status.code == v2.ILLEGAL_OFFSET:  # the next pull learns where to go on
                reason, broker = response.status.message, queue.broker
                more = fields(None, reason, topic=self._topic, group=self._group, broker=broker)
                log.info("not committed: %s", reason, extra=more)
                continue
            check(response.status)


class FileOffsetStore:
    """`offsets.json` as RocketMQ's clients write it, and the one before as `offsets.json.bak`.

    A crash leaves the old file or the new one.
    """

    def __init__(self, path: Path, topic: str) -> None:
        self._path, self._topic = path, topic
        self._known: dict[LocalQueue, int] | None = None

    async def start(self, where: Start | datetime) -> QueueStarts:
        """A queue that is found only later begins where the consumer started, by the time that is
        kept in `starts.json` beside the offsets: one that is new, at its first message."""
        if where is not Start.LAST:
            return QueueStarts(where, where)
        path = self._path.with_name(STARTS_FILE)
        starts = await asyncio.to_thread(_read_starts, path)
        started_s = starts.get(self._topic)
        if started_s is not None:
            later = _since(datetime.fromtimestamp(started_s, UTC))
            return QueueStarts(later, later)
        started = now()
        starts[self._topic] = started.timestamp()
        await asyncio.to_thread(_publish, path, json.dumps(starts))
        return QueueStarts(where, _since(started))

    async def load(self, queue: Queue) -> int | None:
        """Raises `OffsetFileDamaged`."""
        known = await self._all()
        return known.get(LocalQueue(self._topic, queue.broker, queue.id))

    async def save(self, offsets: Mapping[Queue, int]) -> None:
        known = await self._all()
        named = {LocalQueue(self._topic, *queue): offset for queue, offset in offsets.items()}
        fresh = {**known, **named}
        if fresh != known:
            await asyncio.to_thread(_publish, self._path, local_offsets.encode(fresh))
            self._known = fresh

    async def _all(self) -> dict[LocalQueue, int]:
        if self._known is None:
            self._known = await asyncio.to_thread(_read, self._path)
        return self._known


def now() -> datetime:
    return datetime.now(UTC)


def _since(started: datetime) -> datetime:
    return started - CLOCKS_DIFFER


def _read(path: Path) -> dict[LocalQueue, int]:
    damage = ""
    for candidate in (path, path.with_suffix(".json.bak")):
        try:
            return local_offsets.decode(candidate.read_text())
        except FileNotFoundError:
            continue
        except (NoOffsets, UnicodeDecodeError) as wrong:
            damage += f"{candidate}: {wrong}; "
    if damage:
        raise OffsetFileDamaged(f"{damage}remove the files to begin anew")
    return {}


def _read_starts(path: Path) -> dict[str, float]:
    try:
        return {str(topic): float(at_s) for topic, at_s in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as wrong:
        raise OffsetFileDamaged(f"{path}: {wrong}; remove the file to start anew") from wrong


def _publish(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".json.tmp")
    with open(fresh, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        os.replace(path, path.with_suffix(".json.bak"))
    os.replace(fresh, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def message_queue(connection: Connection, topic: str, queue: Queue) -> v2.MessageQueue:
    return v2.MessageQueue(
        topic=connection.resource(topic), id=queue.id, broker=v2.Broker(name=queue.broker)
    )
