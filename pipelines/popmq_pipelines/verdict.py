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

BALANCE_SHOWN_MAX: Final = 1_000
"""Groups and topics in a report; the table has all."""


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    INCOMPLETE = "INCOMPLETE"

    @property
    def exit_code(self) -> int:
        match self:
            case Verdict.PASS:
                return 0
            case Verdict.FAIL:
                return 1
            case Verdict.INCOMPLETE:
                return 4
            case _:
                assert_never(self)


def judge(problems: Sequence[str], finding_count: int) -> Verdict:
    if problems:
        return Verdict.INCOMPLETE
    return Verdict.FAIL if finding_count else Verdict.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run tells; `findings` are the first of them, `finding_counts` counts all by kind."""

    snapshot_id: str
    verdict: Verdict
    problems: Sequence[str] = ()
    as_of_ms: int | None = None
    log_start: int | None = None
    log_end: int | None = None
    lease_states: Mapping[str, int] = field(default_factory=dict)
    finding_counts: Mapping[str, int] = field(default_factory=dict)
    findings: Sequence[Mapping[str, Any]] = ()
    balance: Sequence[Mapping[str, Any]] = ()
    """The rows of recon_balance, the first `BALANCE_SHOWN_MAX`."""
    revive: Sequence[Mapping[str, Any]] = ()
    """The rows of recon_revive."""
