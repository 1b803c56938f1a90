"""The index of keys over the log: written behind it, never asked while behind.

    append ──► dispatch ──► appeared(): kept, few for a moment, many until the loop's next turn
                                 └──► put into the newest file, some hundred messages a turn
    a start, a rebuild, too much kept ──► read from the log instead, some hundred records a turn

`indexed_to` is the log offset up to which everything is in the files. It is derived data: what is
damaged or missing is removed with all that is behind it, and made again from the log. Nothing of
it is waited for by a send; a full disk only leaves it behind.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from popmq_broker.core.store import index as layout
from popmq_broker.core.store.index import ROLLED_BACK, KeyHashes, Sizes
from popmq_broker.store.files.files import Files
from popmq_broker.store.index.index_file import (
    TAIL_BYTES_MAX,
    UNSAVED_ENTRIES_MAX,
    DamagedIndex,
    IndexFile,
)
from popmq_broker.store.index.index_kept import UnindexedRecords
from popmq_broker.store.log.commit_log import CommitLog, ScanEnd
from popmq_broker.store.queues.drafts import Pending
from popmq_common.errors import Corrupt, DiskFull, IndexBehind, IndexDamaged
from popmq_common.link.coalescer import Coalescer
from popmq_common.process.logs import Log
from popmq_common.records.record import Record

TURN_RECORDS: Final = 256
"""Read from the log in one turn of the loop: some 2 ms."""
TURN_KEYS: Final = 4_096
"""Put into a file in one turn of the loop: some 4 ms."""
BATCH_KEYS_MAX: Final = UNSAVED_ENTRIES_MAX // 4
"""Of the records of one append."""
LINGER_S: Final = 0.02
"""Few records wait so long for others: a turn for each costs more than putting them."""
LINGER_RECORDS: Final = 256
"""So many do not wait."""
CATCH_UP_SECONDS_MAX: Final = 5.0
"""How long a search waits for the index."""


class Index:
    """Made by `index_open.open_index`."""

    def __init__(
        self,
        *,
        disk: Files,
        folder: Path,
        sizes: Sizes,
        commit_log: CommitLog,
        log: Log,
        found: list[IndexFile],
    ) -> None:
        self.indexed_to = self._visible_to = commit_log.start
        self._disk = disk
        self._folder = folder
        self._sizes = sizes
        self._commit_log = commit_log
        self._log = log
        self._files = found
        self._hashes = KeyHashes()
        self._kept = UnindexedRecords()
        self._new_names = False
        """Of files that are not yet on disk."""
        self._saving = asyncio.Lock()
        self._turns = Coalescer(self._turn)
        self._full_disk = self._closed = False
        self.failed: Corrupt | OSError | None = None
        """Why it has stopped."""

    # --- following the log ---

    @property
    def behind_bytes(self) -> int:
        return max(0, self._visible_to - self.indexed_to)

    @property
    def safe_ms(self) -> int:
        """Store time up to which whole files are on disk: RocketMQ's indexMsgTimestamp."""
        return max((file.header.end_ms for file in self._files if file.finished), default=0)

    def appeared(self, kept: Pending) -> None:
        """These records have become visible."""
        self._visible_to = kept.end_offset
        self._kept.keep(kept, self.indexed_to)
        self._schedule()

    def go_on(self, visible_to: int = 0) -> None:
        """Follow the log up to there: after the start, and when there may be space again."""
        self._visible_to = max(self._visible_to, visible_to)
        self._full_disk = False
        self._schedule()

    def _schedule(self) -> None:
        if self._stands:
            return
        if 0 < self._kept.records < LINGER_RECORDS:
            self._turns.within(LINGER_S)
        else:
            self._turns.soon()

    @property
    def _stands(self) -> bool:
        """It cannot go on by itself."""
        return (
            self._closed
            or self._full_disk
            or self.failed is not None
            or not self.behind_bytes
            or self._must_save
        )

    @property
    def _must_save(self) -> bool:
        return self._waits_for_save(UNSAVED_ENTRIES_MAX // 2)

    @property
    def should_save(self) -> bool:
        """Before the next checkpoint, or it will stand."""
        return self._waits_for_save(UNSAVED_ENTRIES_MAX // 4)

    def _waits_for_save(self, unsaved_max: int) -> bool:
        newest = self._files[-1] if self._files else None
        return newest is not None and (
            newest.unsaved_count >= unsaved_max
            or (newest.full and sum(not file.finished for file in self._files[-2:]) > 1)
        )

    def _turn(self) -> None:
        if self._stands:
            return
        try:
            if self._kept:
                self._put_kept()
            else:
                self._read_log()
            self._write_entries()
        except DiskFull as full:
            self._full_disk = True
            self._log.warning("index.postponed", reason=str(full))
        except (Corrupt, OSError) as failed:
            self.stop(failed)
        self._schedule()

    def stop(self, failed: Corrupt | OSError) -> None:
        """The log cannot be read, or the files cannot be written: it stays behind."""
        self.failed = failed
        self._log.error("index.stopped", reason=str(failed))

    def _put_kept(self) -> None:
        room = TURN_KEYS
        while self._kept and room > 0 and not self._must_save:
            store_ms, end_offset = self._kept.first_ms, 0
            keyed: list[tuple[int, int]] = []
            while self._kept.first_ms == store_ms and len(keyed) < room:
                kept = self._kept.take()
                self._add_keys(keyed, kept)
                end_offset = kept.end_offset
            if len(keyed) > BATCH_KEYS_MAX:  # the log can be read in smaller steps
                self._kept.forget()
                return
            self._put(keyed, store_ms)
            self.indexed_to = end_offset
            room -= len(keyed)

    def _add_keys(self, keyed: list[tuple[int, int]], kept: Pending) -> None:
        put_into = self._hashes.put_into
        for draft, at in zip(kept.drafts, kept.appended, strict=True):
            if draft.sys_flag & ROLLED_BACK != ROLLED_BACK:
                put_into(keyed, draft.topic, draft.properties, at.log_offset)

    def _read_log(self) -> None:
        at = max(self.indexed_to, self._commit_log.start)
        scan_end = ScanEnd(at)
        room = TURN_KEYS
        for count, (record, _) in enumerate(self._commit_log.scan(at, scan_end), 1):
            if record.log_offset >= self._visible_to:
                self.indexed_to = self._visible_to
                break
            keyed = self.keyed(record)
            self._put(keyed, record.store_timestamp_ms)
            self.indexed_to = scan_end.end
            room -= len(keyed)
            if count >= TURN_RECORDS or room <= 0 or self._must_save:
                break
        else:
            self.indexed_to = scan_end.end
            if scan_end.end < self._visible_to:
                self._pass_over(scan_end)
        if self.indexed_to >= self._visible_to:
            self.indexed_to = self._kept.to = self._visible_to

    def _pass_over(self, damage: ScanEnd) -> None:
        """What of the log cannot be read is not found by its keys."""
        behind = self._commit_log.record_behind(damage.end + 1) or self._visible_to
        self.indexed_to = min(behind, self._visible_to)
        self._log.error("index.passed_over", offset=damage.end, reason=damage.reason)

    def resume(self) -> None:
        """Go on behind the last message of the newest file. Raises `DamagedIndex`."""
        self._kept.forget()
        self.indexed_to = start = self._commit_log.start
        if not self._files or self._files[-1].header.end_offset < start:
            return
        newest = self._files[-1]
        self.indexed_to = last = newest.header.end_offset
        if not self._commit_log.begins_at(last):
            raise DamagedIndex(f"{newest.path}: no record begins at {last}")
        with suppress(Corrupt):  # told when it is passed over
            record = self._commit_log.read_at(last)
            assert record is not None
            rest = self.keyed(record)[self._held_of(last) :]  # the file was full
            self._put(rest, record.store_timestamp_ms)
            self.indexed_to = last + self._commit_log.size_at(last)

    def _held_of(self, log_offset: int) -> int:
        """How many keys of the last message are in the files: it may be in two."""
        held = 0
        for file in reversed(self._files):
            if file.header.end_offset != log_offset:
                break
            held += file.key_count_of_last()
        return held

    def keyed(self, record: Record) -> list[tuple[int, int]]:
        """(key hash, log offset) of each key of a record."""
        keyed: list[tuple[int, int]] = []
        if record.sys_flag & ROLLED_BACK != ROLLED_BACK:
            self._hashes.put_into(keyed, record.topic, record.properties, record.log_offset)
        return keyed

    def _put(self, keyed: list[tuple[int, int]], store_ms: int) -> None:
        while keyed:
            if not self._files or self._files[-1].full:
                self._begin_file(store_ms)
            done = self._files[-1].put(keyed, store_ms)
            keyed = keyed[done:]

    def _begin_file(self, first_ms: int) -> None:
        last, after_ms = "", 0
        if self._files:
            last, after_ms = self._files[-1].path.name, self._files[-1].header.end_ms
        path = self._folder / layout.next_name(first_ms, last)
        self._disk.make_folder(self._folder)
        self._files.append(IndexFile(self._disk, path, self._sizes, after_ms=after_ms))
        self._new_names = True

    def _write_entries(self) -> None:
        for file in self._files[-2:]:
            if file.tail_bytes >= TAIL_BYTES_MAX:
                file.write_entries()

    # --- saving ---

    async def save(self) -> bool:
        """Everything put so far to disk. False when that is full: it stays in memory."""
        async with self._saving:
            try:
                for file in [file for file in self._files if not file.finished]:
                    await self._save_file(file)
                self._full_disk = False
            except DiskFull as full:
                self._full_disk = True
                self._log.warning("index.postponed", reason=str(full))
                return False
            finally:
                self._schedule()
        return True

    async def _save_file(self, file: IndexFile) -> None:
        if not file.needs_save:
            return
        full, frozen = file.full, file.freeze()
        try:
            with file.in_use():
                await asyncio.to_thread(file.save, frozen)
                if self._new_names:
                    self._new_names = False
                    await asyncio.to_thread(self._disk.sync_folder, self._folder)
                if full:
                    await asyncio.to_thread(file.sync)
        except BaseException:
            file.not_saved(frozen)
            raise
        file.saved(frozen)
        if full:
            file.finish()

    async def close(self) -> bool:
        """Catch up if that is soon done, and bring everything to disk. False: that is full."""
        try:
            await self.caught_up()
        except (IndexBehind, Corrupt, OSError) as behind:
            self._log.warning("index.behind", reason=str(behind))
        self._closed = True
        if not await self.save():
            return False
        for file in self._files:
            if not file.finished:
                await asyncio.to_thread(file.sync)
        return True

    def release(self) -> None:
        """Close the files, saved or not."""
        self._closed = True
        self._turns.cancel()
        for file in self._files:
            file.close()

    # --- asking ---

    async def caught_up(self) -> None:
        """Return when everything visible now is in the index.

        Raises `IndexBehind` when that would take long, `Corrupt` when the log cannot be read.
        """
        loop = asyncio.get_running_loop()
        until, target = loop.time() + CATCH_UP_SECONDS_MAX, self._visible_to
        while self.indexed_to < target:
            if self.failed is not None:
                raise self.failed
            if self._closed or self._full_disk or loop.time() > until:
                raise IndexBehind(behind_bytes=self.behind_bytes)
            if self._must_save:
                await self.save()
            self._turns.cancel()
            self._turn()
            await asyncio.sleep(0)

    def candidates(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Log offsets of messages that may have the key, newest first; None for an entry that is
        passed over. Those of other keys, topics and times are among them.

        Raises `IndexDamaged`; then it is being made again.
        """
        key_hash = self._hashes.of(topic, key.encode())
        for file in self._files[::-1]:
            header = file.header
            if header.next_number <= 1 or header.begin_ms > end_ms or header.end_ms < begin_ms:
                continue
            try:
                yield from file.offsets(key_hash, begin_ms, self._commit_log)
            except DamagedIndex as damaged:
                self._make_again(file, str(damaged))
                raise IndexDamaged(path=file.path) from damaged

    def read(self, log_offset: int) -> Record | None:
        """A candidate's record; None when retention has deleted it. Raises `Corrupt`."""
        return self._commit_log.read_at(log_offset)

    def gone_count(self, topic: str, key: str) -> int:
        """How many messages that retention has deleted had the key, or one of the same hash."""
        key_hash, start = self._hashes.of(topic, key.encode()), self._commit_log.start
        return sum(file.gone_count(key_hash, start) for file in self._files)

    # --- removing ---

    def drop_before(self, log_offset: int) -> int:
        """Remove files all of whose messages are before `log_offset`, but never the newest;
        returns how many. For retention."""
        gone = [
            file
            for file in self._files[:-1]
            if file.header.end_offset < log_offset and file.finished
        ]
        for file in gone:
            self._files.remove(file)
            file.remove()
        if gone:
            self._disk.sync_folder(self._folder)
        return len(gone)

    def drop_from(self, file: IndexFile, reason: str) -> None:
        """A file is not what was written: it and all behind it go; `resume` comes next."""
        if file.gone:
            return
        self._log.warning("index.rebuilt", path=str(file.path), reason=reason)
        at = self._files.index(file)
        for behind in reversed(self._files[at:]):
            behind.remove()
        del self._files[at:]
        self._disk.sync_folder(self._folder)

    def _make_again(self, file: IndexFile, reason: str) -> None:
        self.drop_from(file, reason)
        try:
            self.resume()
        except DamagedIndex as damaged:
            self._make_again(self._files[-1], str(damaged))
        except (Corrupt, OSError) as wrong:
            self.stop(wrong)
        self._schedule()
