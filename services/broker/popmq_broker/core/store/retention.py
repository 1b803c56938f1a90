"""Retention: whether the oldest file of the log goes, and whether sends are taken.

How full the disk is, by two limits in percent of it and a reserve in bytes:

    the disk is used                        pressure   sends, before taken   before refused
    -------------------------------------   --------   -------------------   --------------
    up to `clean_percent`                   NONE       taken                 taken
    above it                                HIGH       taken                 refused
    above `refuse_percent`, or no more      OVER       refused               refused
      is free than `reserve_bytes`

What happens to the oldest file, the first row that fits:

    the oldest file                         NONE       HIGH                  OVER
    -------------------------------------   --------   -------------------   --------------
    is the one being written, or not yet    keep       keep                  keep
      on disk with its queue entries
    holds something that is needed          keep       keep                  delete: FORCED
    is younger than `retention_ms`          keep       delete: DISK          delete: DISK
    is older, but the hour is wrong         keep       delete: AGE           delete: AGE
    is older                                delete: AGE                      delete: AGE

The age of a file is that of its newest record. Needed is what a live lease, a timer or an open
transaction rests on: `Runtime.retention_holds`. That a group has not read a message yet
keeps nothing.

Source: RocketMQ DefaultMessageStore.CleanCommitLogService (fileReservedTime, deleteWhen,
diskSpaceCleanForciblyRatio 85, diskSpaceWarningLevelRatio 90). Differs: the store time counts and
not the time a file was touched; leases, timers and transactions are asked; there is no third
limit at 75 %, as nothing waits for an hour unless that is configured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Pressure(Enum):
    NONE = "none"
    HIGH = "high"
    OVER = "over"


class DiskState(Enum):
    """What /metrics shows; `REFUSING` lasts until there is no pressure any more."""

    OK = 0
    CLEANING = 1
    REFUSING = 2


class Reason(Enum):
    """Why a file was deleted."""

    AGE = "age"
    DISK = "disk"
    FORCED = "forced"
    """Something in it was needed."""


class Keep(Enum):
    """Why none was."""

    IN_USE = "it is written, or not yet on disk"
    NEEDED = "it is needed"
    YOUNG = "it is not old enough"
    HOUR = "it waits for the hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLimits:
    """Of a disk. 100 percent: never."""

    clean_percent: int = 100
    refuse_percent: int = 100
    reserve_bytes: int = 0


class Disk(NamedTuple):
    total_bytes: int
    free_bytes: int

    @property
    def used_ratio(self) -> float:
        return 1 - self.free_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    retention_ms: int
    hours: frozenset[int] = frozenset()
    """Of the day, when files may go by age; empty: at any."""


class Oldest(NamedTuple):
    """The oldest file of the log."""

    end: int
    """Log offset behind it."""
    newest_ms: int
    """Store time of its last record."""
    whole: bool
    """Another file follows, and the queues are on disk up to its end."""


class RetentionDecision(NamedTuple):
    reason: Reason | None
    """None: it is kept."""
    keep: Keep | None = None
    needed_by: tuple[str, ...] = ()


def pressure(disk: Disk, limits: DiskLimits) -> Pressure:
    used_percent = 100 * disk.used_ratio
    if disk.free_bytes <= limits.reserve_bytes or used_percent > limits.refuse_percent:
        return Pressure.OVER
    return Pressure.HIGH if used_percent > limits.clean_percent else Pressure.NONE


def next_state(before: DiskState, now: Pressure) -> DiskState:
    if now is Pressure.NONE:
        return DiskState.OK
    if now is Pressure.OVER or before is DiskState.REFUSING:
        return DiskState.REFUSING
    return DiskState.CLEANING


def judge(
    oldest: Oldest,
    *,
    policy: Policy,
    pressure: Pressure,
    holds: Mapping[str, int | None],
    now_ms: int,
    hour: int,
) -> RetentionDecision:
    """`holds`: the lowest log offset that each still needs, by name."""
    if not oldest.whole:
        return RetentionDecision(None, Keep.IN_USE)
    needed_by = tuple(
        name for name, lowest in sorted(holds.items()) if lowest is not None and lowest < oldest.end
    )
    if needed_by:
        if pressure is Pressure.OVER:
            return RetentionDecision(Reason.FORCED, None, needed_by)
        return RetentionDecision(None, Keep.NEEDED, needed_by)
    is_old = now_ms - oldest.newest_ms > policy.retention_ms
    if not is_old:
        if pressure is Pressure.NONE:
            return RetentionDecision(None, Keep.YOUNG)
        return RetentionDecision(Reason.DISK)
    if pressure is Pressure.NONE and policy.hours and hour not in policy.hours:
        return RetentionDecision(None, Keep.HOUR)
    return RetentionDecision(Reason.AGE)
