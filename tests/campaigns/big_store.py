"""A data directory of twenty million messages in twenty GiB, made in two minutes.

The records are small and each segment ends early with a blank, so the log spans the whole address
space while the sparse files take some 5 GiB. All is written by the broker's own encoders: records
with their checksums, queue entries, ends, marks, topics, and a group that has consumed a part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from zlib import crc32

from popmq_broker.core.catalog import tables
from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable, QueueKey
from popmq_broker.core.store import json_checksum, queue_entry
from popmq_broker.store.files import checkpoint_file
from popmq_broker.store.files.checkpoint_file import Marks
from popmq_broker.store.files.files import OsFiles
from popmq_broker.store.files.segments import name
from popmq_broker.store.queues import queue_ends
from popmq_broker.store.queues.queue_ends import Ends, QueueEnds
from popmq_common.records import hosts, properties, record
from popmq_common.units import GiB, LogOffset, QueueOffset

START_MS = 1_700_000_000_000
GROUP = "reader"
_OFFSETS = Struct(">qq")  # queue offset, log offset
BODY = b"x" * 40


@dataclass
class BigStore:
    folder: Path
    messages: int
    segments: int
    topics: int = 100
    queues: int = 8
    behind: int = 300_000
    """Messages that the last checkpoint before a crash did not know: ten seconds of load."""

    def make(self) -> Iterator[float]:
        """Yields what part is done; ends with the files of a clean stop."""
        (self.folder / "commitlog").mkdir(parents=True)
        (self.folder / "config").mkdir()
        keys = [(f"topic-{i:04d}", q) for i in range(self.topics) for q in range(self.queues)]
        templates = [_template(*key) for key in keys]
        entries = [bytearray() for _ in keys]
        tag_code = queue_entry.tags_code("blue")
        per_segment = -(-self.messages // self.segments)
        made = 0
        for segment in range(self.segments):
            parts = []
            at = segment * GiB
            for number in range(made, min(made + per_segment, self.messages)):
                if number == self.messages - self.behind:
                    self._write_state(keys, number, at, "crash")
                place = number % len(keys)
                part = _filled(templates[place], number // len(keys), at)
                parts.append(part)
                entries[place] += queue_entry.pack(at, len(part), tag_code)
                at += len(part)
                if len(parts) == 50_000:
                    self._write(segment, at - sum(map(len, parts)), b"".join(parts))
                    parts = []
            self._write(segment, at - sum(map(len, parts)), b"".join(parts))
            made = min(made + per_segment, self.messages)
            if segment < self.segments - 1:
                self._write(segment, at, record.blank((segment + 1) * GiB - at))
            yield made / self.messages
        for (topic, queue_id), data in zip(keys, entries, strict=True):
            self._write_queue(topic, queue_id, data)
        self._write_state(keys, self.messages, at, "clean")
        self._write_tables(keys)
        self._install("clean")

    def _write(self, segment: int, at: int, data: bytes) -> None:
        path = self.folder / "commitlog" / name(segment * GiB)
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.truncate(GiB)
            file.seek(at - segment * GiB)
            file.write(data)

    def _write_queue(self, topic: str, queue_id: int, data: bytearray) -> None:
        folder = self.folder / "consumequeue" / topic / str(queue_id)
        folder.mkdir(parents=True)
        for base in range(0, len(data), 6_000_000):
            with open(folder / name(base), "wb") as file:
                file.write(data[base : base + 6_000_000])
                file.truncate(6_000_000)

    def _write_state(
        self, keys: list[tuple[str, int]], count: int, log_end: int, what: str
    ) -> None:
        """What a checkpoint after `count` messages leaves."""
        ends = {
            key: Ends(0, (count + len(keys) - 1 - i) // len(keys)) for i, key in enumerate(keys)
        }
        text = queue_ends.encode(QueueEnds(0, log_end, ends))
        (self.folder / f"{what}.ends").write_bytes(json_checksum.sign(text))
        marks = Marks(log_end=log_end, queues_end=log_end, log_ms=START_MS, queues_ms=START_MS)
        checkpoint_file.save(OsFiles(), self.folder / f"{what}.marks", marks)

    def _write_tables(self, keys: list[tuple[str, int]]) -> None:
        names = dict.fromkeys(topic for topic, _ in keys)
        topics = {
            topic: tables.TopicConfig(name=topic, read_queues=self.queues, write_queues=self.queues)
            for topic in names
        }
        half = self.messages // len(keys) // 2
        positions = {QueueKey(GROUP, *key): half for key in keys}
        for file, text in (
            ("topics.json", tables.encode_topics(topics, 1, START_MS)),
            ("consumerOffset.json", offsets.encode(OffsetTable(0, positions), START_MS)),
        ):
            (self.folder / "config" / file).write_bytes(json_checksum.sign(text))

    def crash(self) -> None:
        """Put the checkpoint back that a crash at the end of the load would have left."""
        self._install("crash")
        (self.folder / "abort").write_text("1\n")

    def _install(self, what: str) -> None:
        ends = (self.folder / f"{what}.ends").read_bytes()
        (self.folder / "config" / queue_ends.QUEUE_ENDS_FILE).write_bytes(ends)
        (self.folder / "checkpoint").write_bytes((self.folder / f"{what}.marks").read_bytes())


def _template(topic: str, queue_id: int) -> bytearray:
    named = {properties.TAGS: "blue", properties.UNIQ_KEY: "0123456789ABCDEF0123456789ABCDEF"}
    data = record.encode(
        record.Record(
            topic=topic,
            queue_id=queue_id,
            queue_offset=QueueOffset(0),
            log_offset=LogOffset(0),
            body=BODY,
            properties=properties.encode(named),
            sys_flag=0,
            flag=0,
            born_timestamp_ms=START_MS,
            born_host=hosts.LOCAL,
            store_timestamp_ms=START_MS,
            store_host=hosts.LOCAL,
            reconsume_times=0,
        )
    )
    return bytearray(data)


def _filled(template: bytearray, queue_offset: int, log_offset: int) -> bytes:
    """The template with its two offsets and its checksum."""
    _OFFSETS.pack_into(template, 20, queue_offset, log_offset)
    crc = crc32(memoryview(template)[: -record.CHECKSUM_BYTES]) & 0x7FFFFFFF
    template[-11:-1] = (b"%010d" % crc)[::-1]
    return bytes(template)
