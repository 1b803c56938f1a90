"""All ConsumeQueues of a store: opened from the directory, or made when first written."""

import os
from collections.abc import Iterator
from pathlib import Path

from popmq_broker.core.queue_entry import QueueEntry
from popmq_broker.store.consume_queue import ConsumeQueue

QueueId = tuple[str, int]


class Queues:
    def __init__(self, folder: Path, file_bytes: int) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._queues: dict[QueueId, ConsumeQueue] = {}
        self._next: dict[QueueId, int] = {}
        self._unsynced: set[Path] = set()
        folder.mkdir(parents=True, exist_ok=True)
        for topic in sorted(folder.iterdir()):
            for queue in sorted(topic.iterdir()):
                if queue.name.isdigit():
                    self._queues[topic.name, int(queue.name)] = ConsumeQueue(queue, file_bytes)

    def __iter__(self) -> Iterator[QueueId]:
        return iter(self._queues)

    def next_offset(self, queue: QueueId) -> int:
        """The offset the next appended message gets; ahead of the visible end until dispatched."""
        known = self._next.get(queue)
        return known if known is not None else self.max_offset(*queue)

    def took(self, queue: QueueId, next_offset: int) -> None:
        self._next[queue] = next_offset

    def dispatch(self, topic: str, queue_id: int, offset: int, entry: QueueEntry) -> None:
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            folder = self._folder / topic / str(queue_id)
            queue = self._queues[topic, queue_id] = ConsumeQueue(folder, self._file_bytes)
        queue.append(offset, entry)
        if queue.needs_flush():
            self._unsynced.update(queue.flush())

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.get((topic, queue_id))
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.get((topic, queue_id))
        return queue.max_offset if queue else 0

    def entries(self, topic: str, queue_id: int, start: int, count: int) -> list[QueueEntry]:
        queue = self._queues.get((topic, queue_id))
        return queue.entries(start, count) if queue else []

    def cut(self, log_offset: int) -> None:
        """Forget everything that points at or behind `log_offset`."""
        for queue in self._queues.values():
            queue.cut(log_offset)

    def flush(self) -> set[Path]:
        """Write what is in memory; returns the files that are not yet synced."""
        for queue in self._queues.values():
            self._unsynced.update(queue.flush())
        touched, self._unsynced = self._unsynced, set()
        return touched


def sync_files(paths: set[Path]) -> None:
    """fdatasync each file, and the folders they are in."""
    for path in paths:
        file = os.open(path, os.O_RDWR)
        try:
            os.fdatasync(file)
        finally:
            os.close(file)
    for folder in {parent for path in paths for parent in list(path.parents)[:3]}:
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
