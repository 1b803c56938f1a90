"""Delete the oldest file of the log, and what of the queues pointed into it.

    1. look       which queues begin where without it; other work gets its turn in between
    2. forget     in one go: the log and all queues begin behind it, whoever reads is told "gone"
    3. remove     the log's file; when a checkpoint has said where the queues begin now, files
                  of queues that point at nothing any more

A reader has a message's bytes before anything else happens, so none can meet a file that goes:
before step 2 a record can be read, after it `read` says None. A crash before step 3 brings the
messages back; in the middle of it, queues point below the log's start, as after step 2, and
their files go with the next round. Files go one by one, the oldest first, each gone for good
before the next: there is never a gap for a start to find.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from popmq_broker.core.store.retention import Oldest
from popmq_broker.store.files.files import File, Files
from popmq_broker.store.files.thread_work import to_the_end
from popmq_broker.store.log.commit_log import CommitLog, ScanEnd
from popmq_broker.store.queues.queues import QueueId, Queues

LOOK_QUEUES: Final = 64
"""Looked at before other work gets its turn."""


class OldestFiles:
    def __init__(self, files: Files, commit_log: CommitLog, queues: Queues) -> None:
        self._files = files
        self._commit_log = commit_log
        self._queues = queues
        self._newest_ms: tuple[int, int] | None = None
        """(end, store time) of the file looked at last."""
        self._gone: list[tuple[Path, File]] = []
        self._stale: list[Path] = []
        self.drop_before: list[Callable[[int], object]] = []
        """Called with the log's new start: whatever else points into the log."""

    def look(self, queues_end: int) -> Oldest | None:
        """The oldest file; None while there is only one. `queues_end`: up to where the queues are
        on disk."""
        log = self._commit_log
        end = log.start + log.segment_bytes
        if log.end < end:
            return None
        if self._newest_ms is None or self._newest_ms[0] != end:
            last = log.last_record(end)
            self._newest_ms = (end, last.store_timestamp_ms if last else 0)
        whole = end <= queues_end and end < log.end
        return Oldest(end, self._newest_ms[1], whole)

    def oldest_ms(self) -> int | None:
        """When the first record was stored; None when there is none."""
        log = self._commit_log
        if log.end == log.start:
            return None
        first = next(log.scan(log.start, ScanEnd(log.start)), None)
        return first[0].store_timestamp_ms if first else None

    async def new_minimums(self, start: int) -> dict[QueueId, int]:
        """Where queues begin when the log begins at `start`; only those that begin elsewhere."""
        found = {}
        for i, key in enumerate(list(self._queues)):
            if i % LOOK_QUEUES == 0:
                await asyncio.sleep(0)
            first = self._queues.first_behind(key, start)
            if first > self._queues.min_offset(*key):
                found[key] = first
        return found

    def forget(self, minimums: Mapping[QueueId, int]) -> None:
        """The oldest file is read no more, and queues begin at `minimums`."""
        log = self._commit_log
        path = log.path(log.start)
        self._gone.append((path, log.forget_file(log.start)))
        for key, offset in minimums.items():
            self._queues.raise_min(key, offset)

    def begin_at(self, floors: Mapping[str, Mapping[int, int]]) -> None:
        """Where queues begin that hold nothing. Kept and looked at, so it may change."""
        self._queues.begin_at(floors)

    def forget_topic(self, topic: str, queue_ids: Iterable[int]) -> bool:
        """Forget the queues of a deleted topic; False: something is left, or nothing is there."""
        found = self._queues.forget([(topic, queue_id) for queue_id in queue_ids])
        self._stale += found
        return bool(found)

    async def remove(self) -> None:
        """From disk, what was forgotten of the log. Raises `OSError`: some may still be there."""
        gone, self._gone = self._gone, []
        await to_the_end(_remove_files, self._files, gone)
        for drop_before in self.drop_before:
            drop_before(self._commit_log.start)

    async def remove_of_queues(self) -> None:
        """From disk, files that queues have no more entries in, as config/queueEnds.json knows.

        Raises `OSError`: some of it may still be there.
        """
        stale, self._stale = self._stale, []
        for i, key in enumerate(list(self._queues)):
            if i % LOOK_QUEUES == 0:
                await asyncio.sleep(0)
            stale += self._queues.take_stale_files(key)
        if stale:
            await to_the_end(_remove, self._files, stale)


def _remove_files(files: Files, gone: list[tuple[Path, File]]) -> None:
    for path, file in gone:
        file.close()
        _remove(files, [path])


def _remove(files: Files, paths: list[Path]) -> None:
    for path in paths:
        files.remove(path)
        files.sync_folder(path.parent)
