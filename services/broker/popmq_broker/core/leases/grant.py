"""What a pop hands out: one grant per checkpoint, one lease per message of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

from popmq_broker.core.leases.nack import Nack
from popmq_broker.core.store.queue_entry import QueueEntry

NOT_STORED: Final = -1


@dataclass(slots=True, eq=False)
class Grant:
    """One checkpoint: what a group was handed of a queue in one go, and until when."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    revive_offset: int
    """Where in the revive queue the checkpoint is; `NOT_STORED`: it waits in the pop buffer. Set
    when it is stored; all else never changes."""
    generation: int
    client_id: str = ""
    """Whose signs of life renew it; empty: it is not renewed."""
    renew_ms: int = 0
    """For how long, each time."""
    counted: bool = True
    """Whether its end without an ack counts as an attempt."""
    changed_from: tuple[int, int] | None = None
    """Generation and pop time of the lease that a change replaced by this one; None: nobody holds
    an older handle, or it is too old."""
    nack: Nack | None = None
    """Its consumer gave the message back: what becomes of it when it is due."""

    @property
    def stored(self) -> bool:
        return self.revive_offset != NOT_STORED

    @property
    def due_ms(self) -> int:
        return self.pop_time_ms + self.invisible_ms


class Lease(NamedTuple):
    """One message of a grant, and where it is stored."""

    grant: Grant
    log_offset: int
    size_bytes: int


_LOG_OFFSET, _SIZE_BYTES = itemgetter(0), itemgetter(1)
_lease: Final = cast(Callable[[tuple[Any, ...]], Lease], partial(tuple.__new__, Lease))


def leases_of(
    grant: Grant, queue_offsets: Iterable[int], entries: Sequence[QueueEntry]
) -> dict[int, Lease]:
    """By queue offset; without a step of Python for each."""
    places = zip(repeat(grant), map(_LOG_OFFSET, entries), map(_SIZE_BYTES, entries), strict=False)
    return dict(zip(queue_offsets, map(_lease, places), strict=True))
