"""The epochs of a log, and where the logs of two replicas part.

Each time a replica becomes primary a new epoch begins, at the end of its log. Within an epoch one
primary alone appends, so two logs that have the same epoch with the same start are equal up to the
smaller of that epoch's ends. What a replica has behind that place was never committed: it is cut.

The file config/epochs.json holds them, newest last:

    {"promised": 4, "epochs": [[1, 0], [2, 5120], [4, 90112]]}

`promised` is the highest epoch that the replica has followed or begun: it follows no lower one.
Epoch 0 is what a broker without replicas had written before its group was founded.

Source: Kafka KIP-101; RocketMQ EpochFileCache.findConsistentPoint. Cutting at the commit point
instead loses records that are committed, and leaves others that are not.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from popmq_common.errors import Corrupt

EPOCHS_FILE: Final = "epochs.json"
EPOCHS_MAX: Final = 1_000
"""Older ones are forgotten; a replica that has none of the newest starts anew."""


class EpochStart(NamedTuple):
    epoch: int
    start: int
    """Log offset of its first record."""


BEFORE_REPLICAS: Final = 0
"""The epoch of what was written before."""


@dataclass(frozen=True, slots=True)
class Epochs:
    promised: int = 0
    starts: tuple[EpochStart, ...] = ()

    @property
    def last(self) -> EpochStart | None:
        return self.starts[-1] if self.starts else None

    def begun(self, epoch: int, start: int) -> "Epochs":
        """With an epoch that begins there; empty ones before it, in which nothing was appended,
        are gone. It must be above all others."""
        assert epoch >= self.promised
        assert all(one.epoch < epoch for one in self.starts)
        return Epochs(epoch, self.starts).taken(EpochStart(epoch, start))

    def taken(self, begins: EpochStart) -> "Epochs":
        """With an epoch of the primary's that begins at this log's end."""
        kept = tuple(one for one in self.starts if one.start < begins.start)
        return Epochs(self.promised, (*kept, begins)[-EPOCHS_MAX:])

    def promise(self, epoch: int) -> "Epochs":
        return Epochs(max(epoch, self.promised), self.starts)

    def cut(self, end: int) -> "Epochs":
        """Of a log that ends there."""
        return Epochs(self.promised, tuple(one for one in self.starts if one.start < end))


def split(
    mine: Sequence[EpochStart], my_end: int, theirs: Sequence[EpochStart], their_end: int
) -> int | None:
    """Up to where two logs are equal. None: nothing says that they have anything in common."""
    if not my_end or not their_end:
        return 0
    others = {one.epoch: at for at, one in enumerate(theirs)}
    for at in range(len(mine) - 1, -1, -1):
        other_at = others.get(mine[at].epoch)
        if other_at is None or theirs[other_at].start != mine[at].start:
            continue
        my_epoch_end = mine[at + 1].start if at + 1 < len(mine) else my_end
        their_epoch_end = theirs[other_at + 1].start if other_at + 1 < len(theirs) else their_end
        return min(my_epoch_end, their_epoch_end)
    return None


def epoch_at(starts: Sequence[EpochStart], offset: int) -> tuple[EpochStart, int | None] | None:
    """The epoch that the byte at `offset` belongs to, and where the next one begins."""
    for at in range(len(starts) - 1, -1, -1):
        if starts[at].start <= offset:
            return starts[at], starts[at + 1].start if at + 1 < len(starts) else None
    return None


def encode(epochs: Epochs) -> str:
    starts = [[one.epoch, one.start] for one in epochs.starts]
    return json.dumps({"promised": epochs.promised, "epochs": starts})


def decode(text: str) -> Epochs:
    """Raises `Corrupt`."""
    try:
        fields = json.loads(text)
        starts = tuple(EpochStart(int(epoch), int(start)) for epoch, start in fields["epochs"])
        epochs = Epochs(int(fields["promised"]), starts)
        if any(a.epoch >= b.epoch or a.start >= b.start for a, b in pairwise(starts)):
            raise ValueError("epochs and their starts must rise")
        if epochs.promised < 0 or any(one.epoch < 0 or one.start < 0 for one in starts):
            raise ValueError("epochs and their starts are not negative")
        if starts and starts[-1].epoch > epochs.promised:
            raise ValueError(f"epoch {starts[-1].epoch} was never promised")
    except (ValueError, KeyError, TypeError) as wrong:
        raise Corrupt(path=EPOCHS_FILE, offset=0, reason=str(wrong)) from wrong
    return epochs
