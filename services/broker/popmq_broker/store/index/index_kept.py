"""Records that were sent and are not in the index yet: kept, so that nobody reads them again."""

from collections import deque
from typing import Final

from popmq_broker.store.queues.drafts import Pending

KEPT_BYTES_MAX: Final = 16 << 20
"""So far behind the log's end; what is farther behind is read from the log."""


class UnindexedRecords:
    def __init__(self) -> None:
        self.to = -1
        """Everything from where the index is to here is kept; −1: that cannot be said."""
        self.records = 0
        self._appends: deque[Pending] = deque()

    def __bool__(self) -> bool:
        return bool(self._appends)

    @property
    def first_ms(self) -> int:
        """Store time of the oldest; −1: nothing is kept."""
        return self._appends[0].store_ms if self._appends else -1

    def keep(self, kept: Pending, indexed_to: int) -> None:
        """Unless there is a gap before it, or the index is too far behind."""
        if self.to == kept.start_offset and kept.end_offset - indexed_to <= KEPT_BYTES_MAX:
            self._appends.append(kept)
            self.to = kept.end_offset
            self.records += len(kept.drafts)

    def take(self) -> Pending:
        """The oldest."""
        kept = self._appends.popleft()
        self.records -= len(kept.drafts)
        return kept

    def forget(self) -> None:
        """What was kept is read from the log instead."""
        self._appends.clear()
        self.records, self.to = 0, -1
