"""A follower's view of its own log: what it may take of a primary, cut, acknowledge and show.

    hello: its epochs and its end ──► the primary says up to where the logs are equal
    cut there, on disk ──► then only: fetch, write, sync, acknowledge

The follower shows (puts into queues, index) what is both on its own disk and committed. So what it
may ever have to cut was never seen.
"""

from dataclasses import dataclass
from enum import Enum
from zlib import crc32

from popmq_broker.core.replication.epochs import Epochs, EpochStart
from popmq_common.errors import BadRequest, ReplicaDiverged, StaleEpoch


class GoOn(Enum):
    AS_IT_IS = "as it is"
    CUT = "cut"
    ANEW = "anew"


def start_of(
    *, split: int | None, log_end: int, primary_log_start: int, shown_end: int, counted: bool
) -> tuple[GoOn, int]:
    """What a follower does after the hello, and where it goes on.

    `split`: up to where both logs are equal. `shown_end`: what this replica has shown, or may have.
    `counted`: the register counts this directory among those in sync.

    Raises `ReplicaDiverged`: what was committed differs, which only a bug, a changed disk or a
    forced primary can do. Nothing is touched then.
    """
    behind = split is None or split < primary_log_start
    if behind and counted:  # a member has all that is committed, or its log is lost
        raise ReplicaDiverged(shown=shown_end, split="nowhere")
    if behind:
        return GoOn.ANEW, primary_log_start
    assert split is not None
    if split < shown_end:
        raise ReplicaDiverged(shown=shown_end, split=split)
    return (GoOn.CUT, split) if split < log_end else (GoOn.AS_IT_IS, split)


@dataclass(frozen=True, slots=True)
class Shipment:
    """Raw bytes of the primary's log, all of one epoch."""

    epoch: int
    """The primary's epoch now."""
    at: int
    data: bytes
    crc: int
    data_epoch: EpochStart
    """The epoch that the bytes belong to."""
    commit_point: int


class Following:
    def __init__(self, epochs: Epochs, epoch: int, log_end: int, durable_end: int) -> None:
        """`epoch`: of the primary that is followed; promised already, on disk."""
        assert epoch == epochs.promised
        self.epochs = epochs.cut(log_end)
        self._epochs_are_on_disk = self.epochs == epochs
        """Not if one had begun of which no byte came: what is taken next may belong to another."""
        self.log_end = log_end
        self.durable_end = durable_end
        self._told_commit_point = 0

    @property
    def primary_end(self) -> int:
        """How far the primary had committed when it was last heard."""
        return self._told_commit_point

    @property
    def commit_point(self) -> int:
        """What may be shown."""
        return min(self._told_commit_point, self.durable_end)

    def check(self, shipment: Shipment) -> EpochStart | None:
        """The epoch of its bytes, if `begin` must be on disk before they are written.

        Raises `StaleEpoch` of a primary that is none any more, `BadRequest` for bytes that do not
        belong here or were changed on their way.
        """
        if shipment.epoch != self.epochs.promised:
            raise StaleEpoch(replica="the primary", epoch=shipment.epoch, now=self.epochs.promised)
        if not shipment.data:
            return None
        if shipment.at != self.log_end:
            raise BadRequest(reason=f"bytes of {shipment.at}, the log ends at {self.log_end}")
        if crc32(shipment.data) != shipment.crc:
            raise BadRequest(reason=f"the bytes of {shipment.at} were changed on their way")
        begins, last = shipment.data_epoch, self.epochs.last
        if begins == last:
            return None if self._epochs_are_on_disk else begins
        if last is None:  # nothing is kept; the primary may have deleted the epoch's beginning
            fits = begins.start <= shipment.at
        else:
            fits = begins.start == shipment.at and begins.epoch > last.epoch
        if not fits:
            raise BadRequest(reason=f"epoch {begins} after {last}, at {shipment.at}")
        return begins

    def begin(self, begins: EpochStart) -> Epochs:
        """What must be on disk before the bytes of this epoch are written."""
        if begins != self.epochs.last:
            self.epochs = self.epochs.taken(begins)
        self._epochs_are_on_disk = True
        return self.epochs

    def written(self, shipment: Shipment) -> None:
        self.log_end += len(shipment.data)

    def told(self, commit_point: int) -> None:
        self._told_commit_point = max(self._told_commit_point, commit_point)

    def synced(self, log_end: int) -> None:
        self.durable_end = max(self.durable_end, log_end)
