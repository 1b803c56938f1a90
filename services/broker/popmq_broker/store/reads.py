"""What can be read of a store: queues, entries, records, and files beside them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from popmq_broker.core.store.queue_entry import QueueEntry
from popmq_broker.store.files.config_files import ConfigFiles
from popmq_broker.store.files.files import Files
from popmq_broker.store.log.commit_log import CommitLog, ScanEnd
from popmq_broker.store.queues.queue_ends import QueueEnds
from popmq_broker.store.queues.queues import Queues
from popmq_common.records.record import Record

T = TypeVar("T")


class Reads:
    def __init__(
        self,
        files: Files,
        folder: Path,
        commit_log: CommitLog,
        queues: Queues,
        config_files: ConfigFiles,
    ) -> None:
        self._files = files
        self._folder = folder
        self._commit_log = commit_log
        self._queues = queues
        self._config_files = config_files
        self._visible_end = commit_log.end
        """All records before it are in their queues."""

    @property
    def log_end(self) -> int:
        return self._commit_log.end

    @property
    def visible_end(self) -> int:
        """All records of the log before it are in their queues."""
        return self._visible_end

    @property
    def data_dir(self) -> Path:
        return self._folder

    @property
    def segment_bytes(self) -> int:
        """Size of a file of the log."""
        return self._commit_log.segment_bytes

    @property
    def log_start(self) -> int:
        return self._commit_log.start

    def raw(self, log_offset: int, bytes_max: int) -> bytes:
        """The log's own bytes from there, of one file, also what is not on disk yet."""
        return self._commit_log.raw(log_offset, bytes_max)

    def watermarks(self) -> QueueEnds:
        """Where the log and all queues begin and end, at this moment: of what is visible."""
        return self._queues.ends(self._commit_log.start, self._visible_end)

    def topics(self) -> set[str]:
        """Names of all topics that have a queue."""
        return {topic for topic, _ in self._queues}

    def first_behind(self, topic: str, queue_id: int, log_offset: int) -> int:
        """Of the first message that lies at `log_offset` or behind it; the queue's end when there
        is none."""
        queue = (topic, queue_id)
        return self._queues.first_behind(queue, log_offset) if queue in self._queues else 0

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """It holds messages, or did."""
        return (topic, queue_id) in self._queues

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self._queues.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Behind the last visible message; 0 for a queue that never had one."""
        return self._queues.max_offset(topic, queue_id)

    def end_offset(self, topic: str, queue_id: int) -> int:
        """Behind the last appended message, visible or not."""
        return self._queues.next_offset((topic, queue_id))

    def entries(self, topic: str, queue_id: int, start: int, count: int) -> list[QueueEntry]:
        """At most `count` entries of visible messages from offset `start`. `DAMAGED` for one that
        is not its message's: to read that raises `Corrupt`."""
        return self._queues.entries(topic, queue_id, start, count)

    def entries_at(
        self, topic: str, queue_id: int, offsets: Sequence[int]
    ) -> list[QueueEntry | None]:
        """The entries of single messages, which may be far from each other; None for those that
        are not visible. For who knows what each record must be: an entry of an earlier process is
        not held against its record, as `entries` does it. `DAMAGED` for one that was lost."""
        return self._queues.entries_at(topic, queue_id, offsets)

    def read(self, log_offset: int, size_bytes: int) -> Record | None:
        """None when retention has deleted it. Raises `Corrupt`."""
        return self._commit_log.read(log_offset, size_bytes)

    def read_at(self, log_offset: int) -> tuple[Record, int] | None:
        """A record of which only the first byte is known, and its size; None when retention has
        deleted it. Raises `Corrupt`."""
        record = self._commit_log.read_at(log_offset)
        return None if record is None else (record, self._commit_log.size_at(log_offset))

    def read_bytes(self, log_offset: int, size_bytes: int) -> bytes | None:
        """The same as the bytes of the log, checked but not decoded. Raises `Corrupt`."""
        return self._commit_log.read_bytes(log_offset, size_bytes)

    def read_run(self, entries: Iterable[QueueEntry], bytes_max: int) -> list[bytes]:
        """The same of the first of these, until `bytes_max` are used up. Ends before one that is
        deleted, cannot be read, or is whole in another way than this server writes it."""
        return self._commit_log.read_run(entries, bytes_max)

    def scan(self, start: int) -> Iterator[Record]:
        """All records from `start`, the first byte of one, to the log's end."""
        for record, _ in self._commit_log.scan(max(start, self.log_start), ScanEnd(start)):
            if record.log_offset >= self.log_end:
                return
            yield record

    def record_behind(self, log_offset: int) -> int | None:
        """Where a whole record begins at `log_offset` or behind it; None: nowhere."""
        return self._commit_log.record_behind(log_offset)

    def walk(self, start: int) -> Iterator[Record | None]:
        """`scan` that passes over what is damaged. None: others should have their turn."""
        for found in self._commit_log.walk(max(start, self.log_start), self.log_end):
            yield None if found is None else found[0]

    def load_derived(self, name: str) -> bytes | None:
        """A file of the data directory that can be made again from the log; None: it is not there
        or empty."""
        return self._files.read(self._folder / name) or None

    def load_config(self, name: str, decode: Callable[[str], T]) -> T | None:
        """None when there is no such file. Raises `Corrupt` when neither it nor its backup can
        be decoded."""
        return self._config_files.load(name, decode)
