"""The judge sees everything and checks what is promised, at each step that could break it.

R1  what was answered OK, or shown, is on the disk of each member in sync that is not wiped
R2  an epoch has one primary; an offset that was committed holds the same bytes for ever
R3  a commit point never falls; replicas show the same bytes
R4  a new primary has all that was ever committed
R5  what a replica has shown is never cut
R6  when the faults are over, there is a primary, all are in sync, a record is committed
R7  the set in sync is never smaller than the minimum, nothing is committed with fewer
R8  a replica follows no epoch below one that it has followed
R9  a message that is sent again is stored once, and all answers name its first place
"""

from typing import TYPE_CHECKING

from replication_sim.disk import number_of
from replication_sim.known import READ_BYTES
from replication_sim.violation import Violation

from popmq_broker.core.replication.group_record import GroupRecord

if TYPE_CHECKING:
    from replication_sim.disk import Disk


class Judge:
    def __init__(self) -> None:
        self.committed = bytearray()
        """What was ever shown."""
        self.answered = 0
        self._places: dict[int, list[int]] = {}
        """Id of a record that was committed → where, in the log's order."""
        self._log_starts: dict[tuple[int, int], int] = {}
        """Of who appended a record last: id and place of it → where its own log began."""
        self.epochs: dict[int, str] = {}
        """Epoch → the run of a replica that began it."""
        self._known_at: dict[int, int] = {}
        """Epoch → how much was committed when the register first had it."""
        self.cuts = 0
        self.record: GroupRecord | None = None
        self.disks: dict[str, Disk] = {}
        """Incarnation → disk."""

    # --- the register ---

    def swapped(self, before: GroupRecord | None, after: GroupRecord) -> None:
        self.record = after
        self._known_at.setdefault(after.epoch, len(self.committed))
        if before is None:
            return
        least = min(before.min_in_sync, len(before.in_sync))
        if len(after.in_sync) < least:
            raise Violation("R7", f"{len(after.in_sync)} in sync after {len(before.in_sync)}")
        self._check_members(after, 0)

    # --- primaries ---

    def began(self, run: str, epoch: int, disk: "Disk") -> None:
        if self.epochs.setdefault(epoch, run) != run:
            raise Violation("R2", f"epoch {epoch} of {self.epochs[epoch]} begun by {run}")
        assert self.record is not None
        is_over = self.record.epoch > epoch  # it was paused meanwhile, and commits nothing
        end = self._known_at[epoch] if is_over else len(self.committed)
        if disk.log[disk.start : end] != self.committed[disk.start : end]:
            raise Violation("R4", f"{run} begins epoch {epoch} without all that was committed")

    def commits(self, run: str, epoch: int, before: int, end: int, disk: "Disk") -> None:
        """A primary's commit point, of whole records."""
        if self.epochs.get(epoch) != run:
            raise Violation("R2", f"{run} commits in epoch {epoch} of {self.epochs.get(epoch)}")
        if self.record is None or len(self.record.in_sync) < self.record.min_in_sync:
            raise Violation("R7", f"{run} commits {end} with {self.record}")
        self._place(run, len(self.committed), end, disk)
        self.committed += disk.log[len(self.committed) : end]
        self.shows(run, before, end, disk)
        self._check_members(self.record, before)

    def appends(self, number: int, at: int, log_start: int) -> None:
        """A primary whose log begins there appends a record."""
        self._log_starts[number, at] = log_start

    def _place(self, run: str, start: int, end: int, disk: "Disk") -> None:
        """Whole records are committed."""
        at = start
        while at < end and disk.log[at]:
            number = number_of(disk.log, at)
            places = self._places.setdefault(number, [at])
            first = places[-1]
            # Nobody can know what was deleted, and need not know what is farther back.
            log_start = self._log_starts.get((number, at), disk.start)
            is_known = first >= log_start and at - first <= READ_BYTES
            if first != at and is_known:
                raise Violation("R9", f"{run} stores {number} at {at}, it is at {first} already")
            if first != at:
                places.append(at)
            at += disk.log[at]

    def answers(self, run: str, number: int, at: int, data: bytes) -> None:
        if self.committed[at : at + len(data)] != data:
            raise Violation("R1", f"{run} answers OK for {at}, which is not committed")
        if at not in self._places[number]:
            raise Violation(
                "R9", f"{run} answers {at} for {number}, it is at {self._places[number]}"
            )
        self.answered += 1

    def _check_members(self, record: GroupRecord, start: int) -> None:
        """What was committed is on the disk of each member."""
        end = len(self.committed)
        for replica, incarnation in record.in_sync.items():
            disk = self.disks[incarnation]
            if disk.wiped:
                continue
            first = max(start, disk.start)
            if disk.durable[first:end] != self.committed[first:end]:
                at = _differs_at(disk.durable, self.committed, first)
                text = f"{replica} is in sync, and without the committed bytes of {at}"
                raise Violation("R1", text)

    # --- replicas ---

    def shows(self, run: str, before: int, end: int, disk: "Disk") -> None:
        """A replica shows what is before `end`, whole records; so far it showed `before`."""
        if end < before:
            raise Violation("R3", f"the commit point of {run} falls from {before} to {end}")
        known = len(self.committed)
        if disk.log[before : min(end, known)] != self.committed[before : min(end, known)]:
            at = _differs_at(disk.log, self.committed, before)
            raise Violation("R3", f"{run} shows other bytes at {at} than were shown before")
        if end > known:
            raise Violation("R3", f"{run} shows up to {end}, and {known} is committed")
        disk.shown_end = max(disk.shown_end, end)

    def cut(self, run: str, end: int, disk: "Disk") -> None:
        self.cuts += 1
        if end < disk.shown_end:
            raise Violation("R5", f"{run} cuts at {end}, it has shown {disk.shown_end}")

    def emptied(self, run: str, disk: "Disk") -> None:
        """A replica throws its log away, to begin anew behind what the primary has deleted."""
        if self.record is not None and disk.meta.incarnation in self.record.in_sync.values():
            raise Violation("R5", f"{run} is in sync, and throws its log away")
        disk.shown_end = 0

    def restarted(self, run: str, log_end: int, disk: "Disk") -> None:
        """A replica has recovered its log."""
        if log_end < disk.shown_end:
            raise Violation("R5", f"{run} starts at {log_end}, it had shown {disk.shown_end}")
        if self.record is not None and disk.meta.incarnation in self.record.in_sync.values():
            self._check_members(self.record, 0)

    def follows(self, run: str, epoch: int, disk: "Disk") -> None:
        if epoch < disk.followed_epoch:
            raise Violation("R8", f"{run} follows epoch {epoch} after {disk.followed_epoch}")
        disk.followed_epoch = epoch


def _differs_at(one: bytearray, other: bytearray, start: int) -> int:
    pairs = zip(one[start:], other[start:], strict=False)
    common = min(len(one), len(other))
    return next((start + at for at, (a, b) in enumerate(pairs) if a != b), common)
