"""After a stop or a crash: what the scan of the log found → what to do about it.

The scan walks the records of the log to the first place where no whole, undamaged record begins.
Two things decide: was that place below what the last checkpoint knew to be on disk, and is
anything there at all?

    found there          below the flushed mark     at or behind it
    ---------------      ----------------------     -------------------------------------------
    nothing (zeros)      REFUSE                     KEEP: the log ends here
    damaged bytes        REFUSE                     TRUNCATE: a record that was being written

    and if the last whole record is the first half of a pair (a copy without the ack record that
    belongs to it): TRUNCATE before it, nobody was told of either.

REFUSE: bytes that were on disk have changed; starting would serve or lose messages silently.
Behind the mark nothing was answered OK (the mark is only a lower bound, but the first damaged
place behind it is where the disk stopped keeping the order of writes, so nothing after it was
answered either).

Source: RocketMQ CommitLog.recoverNormally, recoverAbnormally; which truncate in every case.
"""

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    KEEP = "keep"
    TRUNCATE = "truncate"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    end: int
    """Log offset behind the last whole record."""
    flushed: int
    """Log offset up to which the last checkpoint knew the log to be on disk."""
    damaged: bool
    """Bytes other than zero follow the last whole record."""
    half_pair_at: int | None
    """Where the last record begins, if it is the first half of a pair."""


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    log_end: int


def decide(scan: Scan) -> Decision:
    if scan.end < scan.flushed:
        return Decision(Verdict.REFUSE, scan.end)
    if scan.half_pair_at is not None:
        return Decision(Verdict.TRUNCATE, scan.half_pair_at)
    return Decision(Verdict.TRUNCATE if scan.damaged else Verdict.KEEP, scan.end)
