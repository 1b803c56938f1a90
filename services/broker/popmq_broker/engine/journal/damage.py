"""What cannot be read is told once and gone over: by each group when that is on disk.

    read fails ──look──► noted ──saved──► the group goes on behind it
                                             │ the queue's entry is made again
                                             │ (engine/upkeep/rebuild.py)
                                             ▼
                                          delivered to the groups that had gone over it

Who meets a message that it cannot read asks `look`. At first the answer is no: the place and the
group's note are to be saved, which the caller awaits before it tries again. Only then may a
position, or a lease, go over it: what a crash leaves is a message that is known to be missing, or
one that is still to come.
"""

import asyncio
from collections.abc import Callable

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.store import damage
from popmq_broker.core.store.damage import DAMAGE_FILE, DamageTable, Passer, Queue
from popmq_broker.store.store import Store
from popmq_common.errors import Corrupt, DiskFull, TooMuchDamage
from popmq_common.process.logs import Log

LOOK_AHEAD_MAX = 1_024
"""Messages behind a damaged one that are tried at once: damage comes in blocks."""
CHUNK_ENTRIES = 64


class Damage:
    def __init__(self, store: Store, log: Log) -> None:
        self._store = store
        self._log = log
        self._table = DamageTable()
        self._saved = DamageTable()
        """As it is on disk."""
        self._changes = self._saved_changes = 0
        self._refuses = False
        self._saving = asyncio.Lock()

    @property
    def table(self) -> DamageTable:
        return self._table

    def load(self) -> None:
        """At start. Raises `Corrupt`."""
        found = self._store.load_config(DAMAGE_FILE, damage.decode)
        if found is None:
            return
        for queue in {*found.places, *(passer.queue for passer in found.passed)}:
            found.begins_at(queue, self._store.min_offset(*queue))
            found.ends_at(queue, self._store.max_offset(*queue))
        self._table = found
        self._keep_saved()

    def look(self, passer: Passer, offset: int, wrong: Corrupt) -> bool:
        """Whether the group may go over this message; if not yet, await `saved` and try again."""
        if self._saved.has_passed(passer, offset):
            return True
        if self._table.full:
            self._refuses = True
        elif not self._table.has_passed(passer, offset):
            end = self._end_of_damage(passer.queue, offset)
            self.tell(passer.queue, offset, end, wrong)
            self._table.note(passer, offset, end)
            self._changed()
        return False

    def tell(self, queue: Queue, offset: int, end: int, wrong: Corrupt) -> None:
        """Messages that somebody could not read. Saved with what is next."""
        if not self._table.found(queue, offset, end):
            return
        self._changed()
        self._log.error(
            "message.damaged",
            topic=queue[0],
            queue_id=queue[1],
            offset=offset,
            until=end,
            reason=str(wrong),
            todo=f"popmq store rebuild --topic {queue[0]} --queue {queue[1]} --endpoint HOST:PORT",
        )

    def begins_at(self, queue: Queue, oldest: int) -> None:
        """Retention has deleted what is before."""
        self._forget(lambda table: table.begins_at(queue, oldest))

    def mended(self, queue: Queue, start: int, end: int) -> None:
        """These can be read again."""
        self._table.mended(queue, start, end)
        self._changed()

    def settled(self, passer: Passer, start: int, end: int) -> None:
        """The group has them."""
        self._saved.settled(passer, start, end)
        self._table.settled(passer, start, end)
        self._changed()

    def position_changed(self, key: QueueKey) -> None:
        """Somebody has set the group's position: it tries again what is behind it."""
        self._forget(lambda table: table.position_changed(key))

    def forget_topic(self, topic: str) -> None:
        self._forget(lambda table: table.forget_topic(topic))

    def _forget(self, forget: Callable[[DamageTable], bool]) -> None:
        """Also what is on disk counts no longer; that it is not there any more is saved soon."""
        forget(self._saved)
        if forget(self._table):
            self._changed()

    def _end_of_damage(self, queue: Queue, offset: int) -> int:
        """Behind `offset` and the messages that follow and cannot be read either."""
        at, stop = offset + 1, offset + LOOK_AHEAD_MAX
        while at < stop:
            entries = self._store.entries(*queue, at, min(CHUNK_ENTRIES, stop - at))
            if not entries:
                return at
            for entry in entries:
                try:
                    self._store.read_bytes(entry.log_offset, entry.size_bytes)
                except Corrupt:
                    at += 1
                else:
                    return at
        return at

    def _changed(self) -> None:
        self._changes += 1

    @property
    def is_saved(self) -> bool:
        return self._saved_changes == self._changes and not self._refuses

    async def saved_quietly(self) -> None:
        """`saved` for what runs beside the calls: what could not be saved waits, and is told."""
        try:
            await self.saved()
        except (DiskFull, TooMuchDamage) as refused:
            self._log.warning("damage.not_saved", reason=str(refused))

    async def saved(self) -> None:
        """Return when all that was noted is on disk.

        Raises `DiskFull`, `StoreClosed`; `TooMuchDamage` when something could not be noted.
        """
        if self._refuses:
            self._refuses = False
            raise TooMuchDamage(limit=damage.RUNS_MAX)
        target = self._changes
        async with self._saving:  # whoever comes meanwhile finds it done
            if self._saved_changes >= target:
                return
            changes, text = self._changes, damage.encode(self._table)
            await self._store.save_config(DAMAGE_FILE, text)
            self._saved = damage.decode(text)
            self._saved_changes = changes

    def _keep_saved(self) -> None:
        self._saved = damage.decode(damage.encode(self._table))
        self._saved_changes = self._changes
