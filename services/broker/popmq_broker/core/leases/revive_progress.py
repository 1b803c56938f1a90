"""How far back in the revive topic the journal is still needed."""

from collections import deque

from popmq_broker.core.leases.grant import Grant


class ReviveProgress:
    """Per revive queue: from which revive offset on checkpoints are still needed."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, int]] = {}
        self._changes: deque[tuple[int, int]] = deque()

    def opened(self, revive_queue: int, revive_offset: int, lease_count: int) -> None:
        if lease_count:
            self._open.setdefault(revive_queue, {})[revive_offset] = lease_count

    def closed(self, grant: Grant, lease_count: int = 1) -> None:
        """Leases of this grant that no longer rest on its checkpoint."""
        counts = self._open[grant.revive_queue]
        revive_offset = grant.revive_offset
        left = counts[revive_offset] - lease_count
        if left:
            counts[revive_offset] = left
        else:
            del counts[revive_offset]

    def first_needed(self, revive_queue: int, end: int) -> int:
        """The smallest revive offset a lease rests on; `end` when there is none.

        Checkpoints are opened in the order of their offsets, and a dict keeps that order.
        """
        return next(iter(self._open.get(revive_queue, ())), end)

    def position_changed(self, revive_offset: int, log_offset: int) -> None:
        """A position was set: a record in revive queue 0."""
        self._changes.append((revive_offset, log_offset))

    def first_position_change(self, needed_from: int) -> int | None:
        """The revive offset of the first change behind the log offset `needed_from`, where the
        first checkpoint is that a start will read: older ones mean nothing without the change."""
        while self._changes and self._changes[0][1] < needed_from:
            self._changes.popleft()
        return self._changes[0][0] if self._changes else None
