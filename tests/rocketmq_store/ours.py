"""PopMQ's side: messages and consumers through its gRPC port, and a directory as its broker
opens it."""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
from harness.processes import Server, cluster
from rocketmq_store.mix import Item
from rocketmq_store.sizes import (
    BROKER,
    CLUSTER,
    INDEX_ENTRIES,
    INDEX_SLOTS,
    QUEUE_FILE_BYTES,
    SEGMENT_BYTES,
)
from rocketmq_store.theirs import Key, Line

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client, ReceivedMessage, RefusedByServer
from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.core.groups import offsets
from popmq_broker.engine.inspect.find import Find
from popmq_common.process.clock import SystemClock
from popmq_common.records import hosts, properties
from popmq_common.records.names import HALF_GROUP
from popmq_common.records.record import Record
from popmq_internal.v1 import link_pb2 as link

Place = tuple[str, int, int]
"""Topic, queue, queue offset."""
BATCH_MAX: Final = 32
BATCH_BYTES_MAX: Final = 1 << 20
SENDERS: Final = 8
RECEIVERS: Final = 4
SETTINGS_TRIES: Final = 25
_SYSTEM: Final = ("rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_", "TRANS_CHECK_")
_SETTINGS: Final = {
    "POPMQ_BROKER_CLUSTER": CLUSTER,
    "POPMQ_BROKER_SEGMENT_BYTES": str(SEGMENT_BYTES),
    "POPMQ_BROKER_QUEUE_FILE_BYTES": str(QUEUE_FILE_BYTES),
    "POPMQ_BROKER_INDEX_SLOTS": str(INDEX_SLOTS),
    "POPMQ_BROKER_INDEX_ENTRIES": str(INDEX_ENTRIES),
    "POPMQ_BROKER_OFFSETS_INTERVAL_MS": "1000",
    "POPMQ_PROXY_INVISIBLE_MS_MIN": "100",
}


@contextmanager
def popmq(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A broker over `folder`/broker-a, with nameserver and proxy; stopped cleanly at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with cluster(folder, {**_SETTINGS, **(settings or {})}, brokers=1, proxies=1) as server:
        yield server


def broker_settings() -> dict[str, str]:
    return {name: value for name, value in _SETTINGS.items() if name.startswith("POPMQ_BROKER_")}


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    open_batches: dict[str, list[Item]] = {}
    for item in items:
        batch = open_batches.setdefault(item.topic, [])
        if sum(one.size for one in batch) + item.size > BATCH_BYTES_MAX or len(batch) == BATCH_MAX:
            yield batch
            batch = open_batches[item.topic] = []
        batch.append(item)
    yield from (batch for batch in open_batches.values() if batch)


def _message(item: Item, pool: bytes) -> v2.Message:
    system = v2.SystemProperties(
        message_id=f"01{item.number:032X}",
        message_type=v2.FIFO if item.group else v2.NORMAL,
        keys=item.keys,
        body_encoding=v2.GZIP if item.zip else v2.IDENTITY,
        born_host="127.0.0.1",
    )
    system.born_timestamp.FromMilliseconds(time.time_ns() // 1_000_000)
    if item.tag:
        system.tag = item.tag
    if item.group:
        system.message_group = item.group
    body = item.body(pool)
    return v2.Message(
        topic=v2.Resource(name=item.topic),
        user_properties=item.properties,
        system_properties=system,
        body=gzip.compress(body, 1) if item.zip else body,
    )


async def send(endpoint: str, items: Iterable[Item], pool: bytes) -> None:
    """All of them; in the order of `items` within a message group it is not."""
    batches = _batches(items)
    async with (
        Client(endpoint) as client,
        grpc.aio.insecure_channel(endpoint, [("grpc.max_send_message_length", -1)]) as channel,
    ):
        stub = service_grpc.MessagingServiceStub(channel)

        async def sender() -> None:
            for batch in batches:
                request = service.SendMessageRequest(messages=[_message(i, pool) for i in batch])
                done = await stub.SendMessage(
                    request, timeout=30, metadata=client.connection.metadata()
                )
                refused = [e.status for e in done.entries if e.status.code != v2.OK]
                assert done.entries, done.status
                assert not refused, refused[0]

        async with asyncio.TaskGroup() as tasks:
            for _ in range(SENDERS):
                tasks.create_task(sender())


@dataclass
class Taken:
    """What a group was given; messages are known by their numbers."""

    acked: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)


def number_of(message: ReceivedMessage) -> int:
    return int(message.properties["number"])


async def _receive(
    client: Client, topic: str, group: str, count: int, invisible_s: float
) -> list[ReceivedMessage]:
    """RocketMQ's proxy takes a receive before it has dealt with the settings sent before it."""
    for _ in range(SETTINGS_TRIES):
        try:
            return await client.receive(
                topic, group, max_messages=count, invisible_s=invisible_s, wait_s=3.0
            )
        except RefusedByServer as refused:
            if "settings" not in str(refused):
                raise
            await asyncio.sleep(0.2)
    raise AssertionError("RocketMQ's proxy does not take our settings")


async def take(
    endpoint: str,
    topic: str,
    group: str,
    count: int,
    *,
    invisible_s: float,
    acked: float,
    rejected: bool = False,
) -> Taken:
    """Receive about `count` messages and ack that part of them; the rest stays held."""
    taken = Taken()
    left = count

    async def receiver(client: Client) -> None:
        nonlocal left
        while left > 0:
            got = await _receive(client, topic, group, min(left, 16), invisible_s)
            if not got:
                return
            left -= len(got)
            done = got[: round(len(got) * acked)]
            await client.ack(*done)
            taken.acked |= {number_of(message) for message in done}
            for message in got[len(done) :]:
                if rejected:
                    await client.reject(message, "für immer")
                    taken.dead.add(number_of(message))
                else:
                    taken.held.add(number_of(message))

    async with Client(endpoint, request_timeout_s=15.0) as client, asyncio.TaskGroup() as tasks:
        for _ in range(RECEIVERS):
            tasks.create_task(receiver(client))
    return taken


async def until_all_came(
    endpoint: str, topic: str, group: str, wanted: set[int], *, seconds: float
) -> set[int]:
    """Receive and ack until all of `wanted` came, or for so long; what came."""
    came: set[int] = set()
    deadline = time.monotonic() + seconds

    async def receiver(client: Client) -> None:
        while wanted - came and time.monotonic() < deadline:
            got = await _receive(client, topic, group, 32, 60.0)
            await client.ack(*got)
            came.update(number_of(message) for message in got)

    async with Client(endpoint, request_timeout_s=15.0) as client, asyncio.TaskGroup() as tasks:
        for _ in range(RECEIVERS):
            tasks.create_task(receiver(client))
    return came


@dataclass
class Opened:
    """What PopMQ's broker makes of a directory."""

    rows: dict[Place, Line]
    ends: dict[tuple[str, int], tuple[int, int]]
    """First offset and the one behind the last, of each queue that ever held a message."""
    positions: dict[tuple[str, str, int], int]
    """By group, topic and queue."""
    leases: set[tuple[str, str, int, int]]
    topics: dict[str, int]
    groups: set[str]
    waiting: int
    """Messages that wait for their time, by the clock or by a level."""
    open_halves: int
    found: dict[Key, set[int]]
    """By key and by id: where in the log the messages lie that are found."""


async def open_directory(folder: Path, *, search: bool = False) -> Opened:
    """Recover it, read every message, close it cleanly. Raises `Corrupt`.

    `search`: look for each by all its keys and its id, too.
    """
    config = BrokerConfig(
        data_dir=folder,
        name=BROKER,
        cluster=CLUSTER,
        segment_bytes=SEGMENT_BYTES,
        queue_file_bytes=QUEUE_FILE_BYTES,
        index_slots=INDEX_SLOTS,
        index_entries=INDEX_ENTRIES,
    )
    broker = await open_engine(config, SystemClock())
    store, state = broker.state.runtime.store, broker.state
    ends, rows = {}, {}
    for topic, queue in _queue_folders(folder):
        low, high = store.min_offset(topic, queue), store.max_offset(topic, queue)
        if high > 0:
            ends[topic, queue] = (low, high)
        for i, entry in enumerate(store.entries(topic, queue, low, high - low)):
            record = store.read(entry.log_offset, entry.size_bytes)
            assert record is not None, (topic, queue, low + i)
            rows[topic, queue, low + i] = _row(record, entry.size_bytes)
    find = Find(state.runtime, state.catalog_state)
    keys = keys_of(rows.values()) if search else ()
    found = {key: await _find(find, key) for key in keys}
    queues = state.lease_state.table.queues
    levels = broker.timers.levels.pending()
    opened = Opened(
        rows=rows,
        ends=ends,
        positions={
            (key.group, key.topic, key.queue_id): queue.committed for key, queue in queues.items()
        },
        leases={
            (key.group, key.topic, key.queue_id, offset)
            for key, queue in queues.items()
            for offset in queue.leases
        },
        topics={name: topic.read_queues for name, topic in state.catalog_state.topics.items()},
        groups=set(state.catalog_state.groups),
        waiting=broker.timers.wheel.message_count + sum(levels.values()),
        open_halves=len(state.halves),
        found=found,
    )
    await broker.close()
    opened.positions |= _half_positions(folder)
    return opened


def _queue_folders(folder: Path) -> list[tuple[str, int]]:
    """Topics and queue ids. A queue that never had a message has no folder."""
    found = folder.glob("consumequeue/*/*")
    return sorted((path.parent.name, int(path.name)) for path in found)


def _half_positions(folder: Path) -> dict[tuple[str, str, int], int]:
    """From where half messages and op records are needed, as the stop wrote it down."""
    path = folder / "config" / "consumerOffset.json"
    found = offsets.decode(path.read_text(), where=str(path)).offsets
    return {
        (key.group, key.topic, key.queue_id): position
        for key, position in found.items()
        if key.group == HALF_GROUP
    }


async def _find(find: Find, key: Key) -> set[int]:
    topic, name, is_id = key
    request = link.FindMessages(topic=topic, key=name, id_only=is_id, count_max=64, system=True)
    return {message.log_offset for message in (await find.find(request)).messages}


def keys_of(rows: Iterable[Line]) -> dict[Key, set[int]]:
    """By every key and id of messages outside the brokers' own topics: their log offsets."""
    keys: dict[Key, set[int]] = {}
    for row in rows:
        topic, named = row["topic"], row["properties"]
        if not topic.startswith(_SYSTEM):
            for key in named.get("KEYS", "").split():
                keys.setdefault((topic, key, False), set()).add(row["log"])
            if "UNIQ_KEY" in named:
                keys.setdefault((topic, named["UNIQ_KEY"], True), set()).add(row["log"])
    return keys


def _row(record: Record, size_bytes: int) -> Line:
    """As java/Reader.java tells it."""
    return {
        "topic": record.topic,
        "queue": record.queue_id,
        "offset": record.queue_offset,
        "log": record.log_offset,
        "size": size_bytes,
        "body": hashlib.sha1(record.body).hexdigest(),
        "born": record.born_timestamp_ms,
        "bornHost": hosts.decode(record.born_host),
        "storeHost": hosts.decode(record.store_host),
        "stored": record.store_timestamp_ms,
        "sys": record.sys_flag,
        "flag": record.flag,
        "tries": record.reconsume_times,
        "prepared": record.prepared_offset,
        "properties": properties.decode(record.properties),
    }


def numbers_sent(rows: Iterable[Line], topics: Sequence[str]) -> dict[int, Line]:
    """The rows of those topics by the number that the sender gave each message."""
    return {
        int(row["properties"]["number"]): row
        for row in rows
        if row["topic"] in topics and "number" in row["properties"]
    }
