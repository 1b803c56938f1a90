"""The three verdicts. Never green by absence: what could not be looked at is not fine.

INCOMPLETE   the snapshot has problems: nothing can be said
FAIL         something is missing or there twice
PASS         everything was looked at, and all of it is accounted for
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, assert_never

FINDINGS_SHOWN_MAX: Final = 1_000
"""More are counted, but not listed: whoever reads a thousand knows what is wrong."""

PLACES_SHOWN_MAX: Final = 200
"""Kinds of findings by topic and group in a report, each a time series in Prometheus."""

BALANCE_SHOWN_MAX: Final = 1_000
"""Groups and topics in a report; the table has all."""

TWICE: Final = (
    "leased while held",
    "leased after its end",
    "stored twice",
    "checkpointed twice",
    "ended twice",
    "copy without end",
    "commit without end",
    "message without mark",
    "delivered twice",
    "recalled and delivered",
    "wait ended twice",
    "committed twice",
    "committed and rolled back",
    "settled twice",
    "redriven twice",
)
"""Kinds of findings that say that something is there twice."""
MINUTES_SHOWN_MAX: Final = 1_440
RUNS_SHOWN_MAX: Final = 288
"""Two days of ten-minute runs."""


class AuditVerdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    INCOMPLETE = "INCOMPLETE"

    @property
    def exit_code(self) -> int:
        match self:
            case AuditVerdict.PASS:
                return 0
            case AuditVerdict.FAIL:
                return 1
            case AuditVerdict.INCOMPLETE:
                return 4
            case _:
                assert_never(self)


def judge(problems: Sequence[str], finding_count: int) -> AuditVerdict:
    if problems:
        return AuditVerdict.INCOMPLETE
    return AuditVerdict.FAIL if finding_count else AuditVerdict.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run tells; `findings` are the first of them, `finding_counts` counts all by kind."""

    snapshot_id: str
    verdict: AuditVerdict
    problems: Sequence[str] = ()
    """Why nothing can be said; with FAIL, what was lost."""
    as_of_ms: int | None = None
    log_start: int | None = None
    log_end: int | None = None
    lease_states: Mapping[str, int] = field(default_factory=dict)
    finding_counts: Mapping[str, int] = field(default_factory=dict)
    finding_places: Sequence[Mapping[str, Any]] = ()
    """How many by kind, topic and group: the first `PLACES_SHOWN_MAX`, most findings first."""
    findings: Sequence[Mapping[str, Any]] = ()
    balance: Sequence[Mapping[str, Any]] = ()
    """recon_balance per topic and group, the first `BALANCE_SHOWN_MAX`."""
    revive: Sequence[Mapping[str, Any]] = ()
    """The rows of recon_revive."""
    broker: str = ""
    watermark: int | None = None
    """Everything was compared up to this log offset."""
    judged: Sequence[str] = ()
    """The snapshots whose messages this run looked at; the others stand as they were."""
    signature: str = ""
    minutes: Sequence[Mapping[str, Any]] = ()
    """recon_balance per minute, the last `MINUTES_SHOWN_MAX`."""
    latency: Sequence[Mapping[str, Any]] = ()
    """recon_latency per minute and span, of the same minutes; the slowest group counts."""
    again: Mapping[str, int] = field(default_factory=dict)
    """Why messages were handed out more than once → how often."""
    revive_history: Sequence[Mapping[str, Any]] = ()
    """(as_of_ms, lag_count, oldest_open_age_ms) of the runs so far, the last `RUNS_SHOWN_MAX`."""
