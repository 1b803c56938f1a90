"""A broker's history as rows of a snapshot, without a broker and without bytes of a log.

`RowLog` is the journal that all histories of a test share: what is written gets the next log offset
and the time. `cut` makes a snapshot of what came since the last one.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from popmq_broker.core.leases import checkpoint as ck
from popmq_common.records.names import PASSES_GROUP, REVIVE_GROUP, revive_topic
from popmq_pipelines.export.parquet_table import arrow_schema
from popmq_pipelines.snapshot.columns import SCHEMA_VERSION, SNAPSHOT_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, Manifest, digest, encode, load

CLUSTER = "test"
REVIVE = revive_topic(CLUSTER)
REVIVE_QUEUES = 3
RECORD_BYTES = 256
START_MS = 1_700_000_000_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Lease:
    topic: str
    group: str
    queue_id: int
    queue_offset: int
    pop_time_ms: int
    generation: int
    due_ms: int

    @property
    def name(self) -> Row:
        return {
            "topic": self.topic,
            "consumer_group": self.group,
            "queue_id": self.queue_id,
            "queue_offset": self.queue_offset,
            "pop_time_ms": self.pop_time_ms,
            "generation": self.generation,
        }


def crc_of(message_id: str) -> int:
    return int.from_bytes(hashlib.sha256(message_id.encode()).digest()[:3])


@dataclass
class RowLog:
    broker: str = "broker-a"
    now_ms: int = START_MS
    end: int = 0
    tables: dict[str, list[Row]] = field(
        default_factory=lambda: {name: [] for name in SNAPSHOT_TABLES}
    )
    stored: Counter[tuple[str, int]] = field(default_factory=Counter)
    positions: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """(topic, group, queue) → next offset."""
    cut_at: int = 0

    def record(
        self,
        topic: str,
        queue_id: int,
        message_id: str,
        *,
        tags: str | None = None,
        tries: int = 0,
        is_copy: bool = False,
        late_ms: int = 0,
    ) -> Row:
        """Append a record; `late_ms`: the broker's clock is that much behind, for once."""
        row: Row = {
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": self.stored[topic, queue_id],
            "log_offset": self.end,
            "size_bytes": RECORD_BYTES,
            "store_timestamp_ms": self.now_ms - late_ms,
            "born_timestamp_ms": self.now_ms,
            "message_id": message_id,
            "tags": tags,
            "reconsume_times": tries,
            "sys_flag": 0,
            "body_crc": crc_of(message_id),
            "first_pop_time_ms": START_MS if is_copy else None,
            "message_group": message_id,
            "more_properties": None,
        }
        self.tables["commitlog_index"].append(row)
        self.stored[topic, queue_id] += 1
        self.end += RECORD_BYTES
        return row

    def checkpoint(self, leases: Sequence[Lease], attempts: Sequence[int] = ()) -> None:
        """One record; the leases were made together. `attempts`: of a FIFO group, one for each."""
        journal = self._journal(ck.CHECKPOINT_TAG)
        for lease, attempt in zip_longest(leases, attempts):
            self.tables["pop_checkpoints"].append(
                {
                    **lease.name,
                    "invisible_ms": lease.due_ms - lease.pop_time_ms,
                    "due_ms": lease.due_ms,
                    "start_offset": leases[0].queue_offset,
                    "attempt": attempt,
                    **journal,
                }
            )

    def ack(self, leases: Sequence[Lease], *, expired: bool = False) -> Row:
        """One record that ends these leases; returns its place in the journal."""
        before = self.end - RECORD_BYTES
        journal = self._journal(ck.ACK_TAG)
        for lease in leases:
            self.tables["pop_acks"].append(
                {
                    **lease.name,
                    "expired": expired,
                    **journal,
                    "previous_log_offset": before if before >= 0 else None,
                }
            )
        return journal

    def move(self, topic: str, group: str, queue_id: int, to_offset: int) -> None:
        journal = self._journal(ck.CHECKPOINT_TAG)
        self.tables["position_moves"].append(
            {
                "topic": topic,
                "consumer_group": group,
                "queue_id": queue_id,
                "to_offset": to_offset,
                "moved_at_ms": self.now_ms,
                **journal,
            }
        )
        self.positions[topic, group, queue_id] = to_offset

    def _journal(self, tag: str) -> Row:
        queue_id = (self.end // RECORD_BYTES) % REVIVE_QUEUES
        row = self.record(REVIVE, queue_id, f"journal {self.end}", tags=tag)
        return {
            "revive_queue_id": queue_id,
            "revive_offset": row["queue_offset"],
            "log_offset": row["log_offset"],
        }

    def cut(self, folder: Path, *, goes_on: Path | None = None, grows: bool = False) -> Manifest:
        """A snapshot of what came since the last cut, which goes on from the one in `goes_on`; or,
        if it `grows`, a whole one."""
        begins = 0 if grows or goes_on is None else self.cut_at
        self.tables["consume_offsets"] = self._offsets()
        folder.mkdir(parents=True)
        files = {name: self._write(folder, name, begins) for name in SNAPSHOT_TABLES}
        before = load(goes_on) if goes_on and not grows else None
        manifest = Manifest(
            schema_version=SCHEMA_VERSION,
            code_version="test",
            snapshot_id=folder.name,
            broker=self.broker,
            cluster=CLUSTER,
            previous_snapshot_id=before.snapshot_id if before else "",
            previous_manifest_sha256=digest(goes_on / MANIFEST) if goes_on and before else "",
            log_start=0,
            log_from=begins,
            log_end=self.end,
            log_last=self.end - RECORD_BYTES,
            log_last_sha256="",
            log_first_ms=START_MS,
            offsets_log_end=self.end,
            as_of_ms=self.now_ms,
            running_since_ms=0,
            problems=[],
            files=files,
        )
        (folder / MANIFEST).write_bytes(encode(manifest))
        self.cut_at = self.end
        return manifest

    def _offsets(self) -> list[Row]:
        users = [
            {
                "topic": topic,
                "consumer_group": group,
                "queue_id": queue_id,
                "next_offset": at,
                "filter_kind": None,
                "filter": None,
            }
            for (topic, group, queue_id), at in sorted(self.positions.items())
        ]
        own = [
            {
                "topic": REVIVE,
                "consumer_group": REVIVE_GROUP,
                "queue_id": queue_id,
                "next_offset": -1,
            }
            for queue_id in range(REVIVE_QUEUES)
        ]
        told = {"topic": REVIVE, "consumer_group": PASSES_GROUP, "queue_id": 0, "next_offset": 0}
        return [*users, *own, told]

    def _write(self, folder: Path, name: str, begins: int) -> Mapping[str, Any]:
        rows = [row for row in self.tables[name] if row.get("log_offset", begins) >= begins]
        path = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, arrow_schema(SNAPSHOT_TABLES[name])), path)
        return {"file": path.name, "rows": len(rows), "sha256": digest(path)}
