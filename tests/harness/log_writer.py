"""Writes the files of a broker that never ran: records, checkpoints and acks by the real encoders,
in an order and with faults that a real broker would not produce."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from popmq_broker.core.catalog import catalog
from popmq_broker.core.catalog.tables import GroupConfig, TopicConfig
from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable, QueueKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_common.records import hosts, names, properties, record
from popmq_common.units import LogOffset, QueueOffset

TOPIC, GROUP, BROKER, CLUSTER = "orders", "billing", "broker-a", "test"
REVIVE = names.revive_topic(CLUSTER)
RETRY = names.retry_topic(GROUP, TOPIC)
DEAD = names.dead_letter_topic(GROUP)
START_MS = 1_700_000_000_000
INVISIBLE_MS = 10_000
SEGMENT_BYTES = 2_048  # some five records, so that files roll all the time


@dataclass
class LogWriter:
    data_dir: Path
    start: int = 0
    topic: str = TOPIC
    """Where messages, leases and positions are meant that name no topic."""
    now_ms: int = START_MS
    revive_queues: int = 2
    end: int = 0
    stored: dict[tuple[str, int], int] = field(default_factory=Counter)
    """Records per queue so far: the next queue offset."""
    positions: dict[QueueKey, int] = field(default_factory=dict)
    _turn: int = 0

    def __post_init__(self) -> None:
        self.end = self.start
        (self.data_dir / "commitlog").mkdir(parents=True)
        (self.data_dir / "config").mkdir()

    def send(self, body: str, topic: str | None = None, queue_id: int = 0) -> int:
        """A message; returns its queue offset."""
        topic = topic or self.topic
        self._append(topic, queue_id, body.encode(), {properties.UNIQ_KEY: f"id-{body}"})
        return self.stored[topic, queue_id] - 1

    def pop(
        self,
        *queue_offsets: int,
        topic: str | None = None,
        queue_id: int = 0,
        invisible_ms: int = INVISIBLE_MS,
        generation: int = 1,
    ) -> ck.Checkpoint:
        """A lease of these offsets, made now."""
        topic = topic or self.topic
        lease = ck.Checkpoint(
            topic=topic,
            group=GROUP,
            queue_id=queue_id,
            start_offset=QueueOffset(queue_offsets[0]),
            offsets=queue_offsets,
            pop_time_ms=self.now_ms,
            invisible_ms=invisible_ms,
            broker=BROKER,
            generation=generation,
        )
        self.write_checkpoint(lease)
        key = QueueKey(GROUP, topic, queue_id)
        self.positions[key] = max(self.positions.get(key, 0), queue_offsets[-1] + 1)
        return lease

    def write_checkpoint(self, lease: ck.Checkpoint) -> None:
        self._journal(ck.CHECKPOINT_TAG, ck.encode_checkpoint(lease))

    def move(self, to: int, topic: str | None = None, queue_id: int = 0) -> None:
        topic = topic or self.topic
        lease = ck.Checkpoint(
            topic=topic,
            group=GROUP,
            queue_id=queue_id,
            start_offset=QueueOffset(to),
            offsets=(),
            pop_time_ms=self.now_ms,
            invisible_ms=0,
            broker=BROKER,
        )
        self.write_checkpoint(lease)
        self.positions[QueueKey(GROUP, topic, queue_id)] = to

    def ack(self, lease: ck.Checkpoint, *queue_offsets: int, expired: bool = False) -> None:
        """End the lease of these offsets, or of all it has."""
        tag, body = ck.encode_ack(
            ck.AckRecord(
                topic=lease.topic,
                group=lease.group,
                queue_id=lease.queue_id,
                start_offset=lease.start_offset,
                offsets=queue_offsets or lease.offsets,
                pop_time_ms=lease.pop_time_ms,
                broker=lease.broker,
                generation=lease.generation,
                expired=expired,
            )
        )
        self._journal(tag, body)

    def change(self, lease: ck.Checkpoint, invisible_ms: int) -> ck.Checkpoint:
        """A new lease of the only offset, then the end of the old one, as the broker writes it."""
        changed = replace(
            lease,
            start_offset=QueueOffset(lease.offsets[0]),
            pop_time_ms=self.now_ms,
            invisible_ms=invisible_ms,
            generation=lease.generation + 1,
        )
        self.write_checkpoint(changed)
        self.ack(lease)
        return changed

    def copy(self, body: str, topic: str | None = None) -> int:
        """The copy for redelivery, or dead letter, of the message with this body."""
        topic = topic or names.retry_topic(GROUP, self.topic)
        named = {properties.UNIQ_KEY: f"id-{body}", properties.FIRST_POP_TIME: str(START_MS)}
        self._append(topic, 0, body.encode(), named, tries=1)
        return self.stored[topic, 0] - 1

    def expire(
        self, lease: ck.Checkpoint, queue_offset: int, body: str, topic: str | None = None
    ) -> int:
        """The pair that ends a lease whose time ran out; returns the copy's queue offset."""
        copied = self.copy(body, topic)
        self.ack(lease, queue_offset, expired=True)
        return copied

    def owner(self, kind: str, name: str, owner: str) -> None:
        """A topic or group is changed, and is this owner's from here on."""
        config = TopicConfig(name=name, read_queues=1, write_queues=1, owner=owner)
        change = catalog.topic(config)
        if kind == "group":
            change = catalog.group(GroupConfig(name=name, owner=owner))
        body = catalog.encode(change)
        self._append(names.CATALOG_TOPIC, 0, body, {properties.TAGS: kind})

    def pass_time(self, ms: int) -> None:
        """And one more message, so that the log ends that much later."""
        self.now_ms += ms
        self.send(f"at {self.now_ms}", topic="clock")

    def save_offsets(self) -> None:
        """As the broker does every few seconds; nothing of the journal is given up."""
        revive = {QueueKey(names.REVIVE_GROUP, REVIVE, i): -1 for i in range(self.revive_queues)}
        table = OffsetTable(self.end, {**self.positions, **revive})
        self.write_offsets(offsets.encode(table, self.now_ms))

    def write_offsets(self, text: str) -> None:
        (self.data_dir / "config" / "consumerOffset.json").write_text(text)

    def write_raw(self, data: bytes) -> None:
        """Bytes at the log's end that are no record."""
        base = self.end - self.end % SEGMENT_BYTES
        with open(self._file(base), "r+b") as file:
            file.seek(self.end - base)
            file.write(data)

    def _journal(self, tag: str, body: bytes) -> None:
        queue_id = self._turn % self.revive_queues
        self._turn += 1
        self._append(REVIVE, queue_id, body, {properties.TAGS: tag})

    def _append(
        self, topic: str, queue_id: int, body: bytes, named: dict[str, str], tries: int = 0
    ) -> None:
        draft = record.Record(
            topic=topic,
            queue_id=queue_id,
            queue_offset=QueueOffset(self.stored[topic, queue_id]),
            log_offset=LogOffset(self.end),
            body=body,
            properties=properties.encode(named),
            sys_flag=0,
            flag=0,
            born_timestamp_ms=self.now_ms,
            born_host=hosts.LOCAL,
            store_timestamp_ms=self.now_ms,
            store_host=hosts.LOCAL,
            reconsume_times=tries,
        )
        data = record.encode(draft)
        base = self.end - self.end % SEGMENT_BYTES
        remaining = base + SEGMENT_BYTES - self.end
        if len(data) + record.BLANK_BYTES > remaining:
            self.write_raw(record.blank(remaining))
            self.end = base + SEGMENT_BYTES
            data = record.encode(draft._replace(log_offset=LogOffset(self.end)))
        self.write_raw(data)
        self.end += len(data)
        self.stored[topic, queue_id] += 1

    def _file(self, base: int) -> Path:
        path = self.data_dir / "commitlog" / f"{base:020d}"
        if not path.exists():
            path.write_bytes(bytes(SEGMENT_BYTES))
        return path


def resign(manifest_path: Path, table: str, **told: object) -> None:
    """Change what a manifest says of a file."""
    fields = json.loads(manifest_path.read_text())
    fields["files"][table].update(told)
    manifest_path.write_text(json.dumps(fields))
