"""After a stop or a crash: what was found of the log → what to do about it.

The mark is how far the last checkpoint knew the log to be on disk, a lower bound. Whatever lies
below it must be there and whole: if it is not, a disk or a person has changed it, and starting
would lose or invent messages silently. At and behind the mark anything may have happened: a disk
that loses power keeps some of what was not synced and not the rest, in any order, so a hole may
be followed by whole records. None of these was answered OK (an fdatasync that had ended would
have kept what is before them), so the log ends at the first bad place.

A directory without a readable mark of ours (RocketMQ has written it, or the checkpoint is gone)
is read from its first byte, and judged by what follows the bad place.

    bytes of a file                    below the mark   at or behind it      no mark
    --------------------------------   --------------   ------------------   --------------------
    it is missing before another       REFUSE           TRUNCATE there       REFUSE
    it is shorter than segment_bytes   REFUSE           KEEP: they are       REFUSE; TRUNCATE if
      (was being made, or cut back)                     zeros now            all from there is empty
    it is longer                       REFUSE           REFUSE               REFUSE

    the first place where no           below the mark   at or behind it      no mark
    whole record begins
    --------------------------------   --------------   ------------------   --------------------
    zeros to the end of the log        REFUSE           KEEP                 KEEP
    damage, or zeros and then more     REFUSE           TRUNCATE there       TRUNCATE there
      … and a whole record behind it   REFUSE           TRUNCATE there       REFUSE
    none, but the last record, behind  (cannot be)      TRUNCATE before it   KEEP (not ours)
      the mark, is half of a pair

The half of a pair is a copy of a message without the ack record that belongs to it: nobody was
told of either.

Differs from RocketMQ (CommitLog.recoverNormally, recoverAbnormally), which truncates in each case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class RecoveryAction(Enum):
    KEEP = "keep"
    TRUNCATE = "truncate"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    verdict: RecoveryAction
    log_end: int
    """Where the log ends from now on; for REFUSE, the bad place."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    end: int
    """Log offset behind the last whole record."""
    reason: str
    """Why no whole record begins there."""
    mark: int | None
    damaged: bool
    """Bytes other than zero follow."""
    later_record_at: int | None = None
    """A whole record that was found behind `end`; only looked for without a mark."""
    half_pair_at: int | None = None
    """Where the last record begins, if it is the first half of a pair."""


def judge_files(
    found: Sequence[tuple[int, int]], segment_bytes: int, mark: int | None
) -> RecoveryDecision:
    """The log's files, (first offset, size in bytes) in order; TRUNCATE drops from `log_end` on."""
    expected = found[0][0] if found else 0
    for base, size_bytes in found:
        wrong_size = f"the file has {size_bytes} bytes, not the {segment_bytes} of segment_bytes"
        if base % segment_bytes or size_bytes > segment_bytes:
            return RecoveryDecision(RecoveryAction.REFUSE, base, wrong_size)
        if base != expected:
            refuse = mark is None or expected < mark
            reason = f"the file before {base} is missing"
            return RecoveryDecision(
                RecoveryAction.REFUSE if refuse else RecoveryAction.TRUNCATE, expected, reason
            )
        if size_bytes < segment_bytes and (mark is None or base + size_bytes < mark):
            empty = mark is None and not any(size for start, size in found if start >= base)
            return RecoveryDecision(
                RecoveryAction.TRUNCATE if empty else RecoveryAction.REFUSE, base, wrong_size
            )
        expected += segment_bytes
    if mark is not None and mark > expected:
        return RecoveryDecision(
            RecoveryAction.REFUSE, expected, f"the log was on disk up to {mark}"
        )
    return RecoveryDecision(RecoveryAction.KEEP, expected)


def judge_scan(scan: Scan) -> RecoveryDecision:
    if scan.mark is not None and scan.end < scan.mark:
        reason = f"{scan.reason}, but the log was on disk up to {scan.mark}"
        return RecoveryDecision(RecoveryAction.REFUSE, scan.end, reason)
    if scan.mark is None and scan.later_record_at is not None:
        reason = f"{scan.reason}, but a record follows at {scan.later_record_at}"
        return RecoveryDecision(RecoveryAction.REFUSE, scan.end, reason)
    half_at = scan.half_pair_at
    if half_at is not None and scan.mark is not None and half_at >= scan.mark:
        reason = "the last record lacks the one that belongs to it"
        return RecoveryDecision(RecoveryAction.TRUNCATE, half_at, reason)
    if scan.damaged:
        return RecoveryDecision(RecoveryAction.TRUNCATE, scan.end, scan.reason)
    return RecoveryDecision(RecoveryAction.KEEP, scan.end)
