"""Faults put into a snapshot of a real broker: rows are changed, and every checksum is made right
again, so that only what the rows say can give them away."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from harness.broker import EngineDriver
from harness.broker_calls import Popped, popped

from popmq_common.records import hosts, properties
from popmq_internal.v1 import link_pb2 as link
from popmq_pipelines.export.parquet_table import arrow_schema
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, digest

Row = dict[str, Any]
_RANGES = ("log_offset", "queue_offset")


@dataclass
class Planting:
    """The tables of a whole snapshot, to be changed and written back."""

    folder: Path
    tables: dict[str, list[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in SNAPSHOT_TABLES:
            read = pq.read_table(self.folder / f"{name}.parquet", partitioning=None)
            self.tables[name] = read.to_pylist()

    def rows(self, table: str, **wanted: Any) -> list[Row]:
        """Those whose columns have these values; they may be changed in place."""
        return [
            row
            for row in self.tables[table]
            if all(row[name] == value for name, value in wanted.items())
        ]

    def drop(self, table: str, **wanted: Any) -> list[Row]:
        """Take these rows out; returns them."""
        gone = self.rows(table, **wanted)
        assert gone, f"{table} has no {wanted}"
        self.tables[table] = [row for row in self.tables[table] if row not in gone]
        return gone

    def silence(self, table: str, **wanted: Any) -> list[Row]:
        """The same, of the journal: a record that has no row left says something harmless now."""
        gone = self.drop(table, **wanted)
        journal = ("pop_checkpoints", "pop_acks", "position_moves")
        told = {row["log_offset"] for name in journal for row in self.tables[name]}
        for row in gone:
            if row["log_offset"] not in told:
                (record,) = self.rows("commitlog_index", log_offset=row["log_offset"])
                record["tags"] = "start"
        return gone

    def add(self, table: str, row: Row, **other: Any) -> Row:
        made = {**row, **other}
        self.tables[table].append(made)
        return made

    def write(self) -> None:
        manifest = json.loads((self.folder / MANIFEST).read_text())
        for name, rows in self.tables.items():
            path = self.folder / f"{name}.parquet"
            if rows and "log_offset" in rows[0]:
                rows.sort(key=lambda row: int(row["log_offset"]))
            pq.write_table(pa.Table.from_pylist(rows, arrow_schema(SNAPSHOT_TABLES[name])), path)
            manifest["files"][name] = {
                "file": path.name,
                "rows": len(rows),
                "bytes": path.stat().st_size,
                "sha256": digest(path),
                **_ranges(rows),
            }
        (self.folder / MANIFEST).write_text(json.dumps(manifest))


def _ranges(rows: list[Row]) -> Row:
    found: Row = {}
    for name in _RANGES:
        values = [row[name] for row in rows if name in row]
        found[f"{name}_min"] = min(values, default=None)
        found[f"{name}_max"] = max(values, default=None)
    return found


@dataclass
class Tenant:
    """A topic and a group of their own in a broker that others use too."""

    driver: EngineDriver
    name: str
    fifo: bool = False
    max_attempts: int = 2

    def __post_init__(self) -> None:
        topic = link.TopicConfig(
            name=self.topic, read_queues=1, write_queues=1, message_type="MIXED"
        )
        group = link.GroupConfig(
            name=self.group, fifo=self.fifo, max_attempts=self.max_attempts, consume_from="FIRST"
        )
        self.driver.call(put_topic=link.PutTopic(topic=topic))
        self.driver.call(put_group=link.PutGroup(group=group))
        self.sent = 0

    @property
    def topic(self) -> str:
        return self.name

    @property
    def group(self) -> str:
        return f"g-{self.name}"

    @property
    def queue(self) -> Row:
        return {"topic": self.topic, "consumer_group": self.group}

    def record(self, tag: str = "", message_group: str = "", **more: str) -> link.Send:
        body = f"{self.name}-{self.sent}"
        self.sent += 1
        named = {properties.UNIQ_KEY: f"id-{body}", **more}
        if tag:
            named[properties.TAGS] = tag
        if message_group:
            named[properties.SHARDING_KEY] = message_group
        made = link.OutgoingRecord(
            body=body.encode(),
            properties=properties.encode(named),
            born_timestamp_ms=self.driver.clock.now_ms(),
            born_host=hosts.LOCAL,
        )
        return link.Send(topic=self.topic, queue_id=0, records=[made])

    def send(self, count: int = 1, tag: str = "", message_group: str = "", **more: str) -> None:
        for _ in range(count):
            self.driver.call(send=self.record(tag, message_group, **more))

    def pop(
        self, count: int = 32, invisible_ms: int = 10_000, *, tag: str = "", sql: str = ""
    ) -> list[Popped]:
        kind = link.FILTER_KIND_TAG if tag else link.FILTER_KIND_ALL
        request = link.Pop(
            group=self.group,
            topic=self.topic,
            batch_size=count,
            invisible_ms=invisible_ms,
            filter_kind=link.FILTER_KIND_SQL if sql else kind,
            filter_expression=sql or tag,
        )
        return [popped(message) for message in self.driver.call(pop=request).pop.messages]

    def ack(self, messages: list[Popped]) -> None:
        handles = [message.handle for message in messages]
        self.driver.call(ack=link.Ack(group=self.group, topic=self.topic, handles=handles))

    def take(self, count: int = 32, *, tag: str = "", sql: str = "") -> None:
        self.ack(self.pop(count, tag=tag, sql=sql))

    def nack(self, messages: list[Popped], kind: int = link.NACK_KIND_COUNTED) -> None:
        handles = [message.handle for message in messages]
        request = link.Nack(
            group=self.group,
            topic=self.topic,
            handles=handles,
            kind=link.NackKind.ValueType(kind),
            delay_ms=0,
        )
        self.driver.call(nack=request)

    def send_later(self, delay_ms: int) -> tuple[str, int]:
        """Message id, and when it is due."""
        due_ms = self.driver.clock.now_ms() + delay_ms
        request = self.record(**{properties.DELIVER_MS: str(due_ms)})
        request.kind = link.SEND_KIND_DELAY
        self.driver.call(send=request)
        return f"id-{self.name}-{self.sent - 1}", due_ms

    def recall(self, later: tuple[str, int]) -> None:
        message_id, due_ms = later
        request = link.Recall(topic=self.topic, message_id=message_id, due_ms=due_ms)
        self.driver.call(recall=request)

    def half(self) -> tuple[int, int]:
        request = self.record()
        request.kind = link.SEND_KIND_HALF
        reply = self.driver.call(send=request).send
        return reply.queue_offset, reply.log_offsets[0]

    def end(self, half: tuple[int, int], *, commit: bool = True) -> None:
        request = link.EndTransaction(
            topic=self.topic, half_offset=half[0], log_offset=half[1], commit=commit
        )
        self.driver.call(end_transaction=request)

    def reset(self, offset: int) -> None:
        request = link.ResetOffsets(group=self.group, topic=self.topic, offset=offset)
        self.driver.call(reset_offsets=request)

    def redrive(self) -> None:
        which = link.Redrive(group=self.group, count_max=100)
        request = link.RedriveDeadLetters(which=which, to_topic=True)
        self.driver.call(redrive_dead_letters=request)


@dataclass(frozen=True)
class Expected:
    """A finding: its kind, its topic (of a tenant: its name is filled in), queue offset, count."""

    kind: str
    queue_offset: int
    count: int = 1
    topic: str = "{name}"


@dataclass(frozen=True)
class Fault:
    """What happens in a broker, what is then done to its snapshot, and what must be found."""

    name: str
    says: str
    """The fault, as docs/audit.md tells it."""
    live: Callable[[Tenant], object]
    plant: Callable[[Planting, Tenant], object]
    expected: tuple[Expected, ...]
    fifo: bool = False
    max_attempts: int = 2
