"""Figures of the cluster's report in words, alike in the page and in the text."""

from collections.abc import Mapping
from typing import Final

from popmq_pipelines.cluster.coverage import Coverage

COUNTS: Final[Mapping[str, tuple[str, str]]] = {
    "acked": ("acked", "the group is done with it"),
    "in_flight": ("in flight", "leased, and the lease is not over"),
    "ready": ("ready", "the group has not been given it yet, or gets it again in place"),
    "retried": ("copied", "given back or not acked in time; a copy is in the retry topic"),
    "dead": ("dead letters", "no attempt was left, or the consumer rejected it"),
    "passed": (
        "not for the group",
        "left out by the group's filter, stored before the group's start, passed by a reset, or "
        "pulled",
    ),
    "voided": ("set aside", "leased, and then the group's position was reset"),
    "skipped": ("skipped", "passed without a reason: a finding"),
    "overdue": ("overdue", "its lease is over, and it was not redelivered: a finding"),
    "uncopied": ("lost to the group", "its lease is over, and there is no copy: a finding"),
}
"""Where messages stand → what it is called, and what it means."""


def owner_told(owner: str) -> str:
    return owner or "(nobody)"


def covered(one: Coverage) -> str:
    if one.looked_at is None:
        return "–"
    return f"{one.looked_at[0]:,} to {one.looked_at[1]:,}"


def never_looked_at(one: Coverage) -> str:
    """Before the end of what was looked at."""
    if one.looked_at is None:
        return "all" if one.as_of_ms is None else "–"
    if not one.never:
        return "nothing"
    return ", ".join(f"{start:,} to {end:,}" for start, end in one.never)


def bytes_told(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def ms_told(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.3g} s"
    if ms < 7_200_000:
        return f"{ms / 60_000:.3g} min"
    return f"{ms / 3_600_000:,.3g} h"


def share(count: int, whole: int) -> str:
    part = 100 * count / whole
    return "less than 0.1 %" if 0 < part < 0.1 else f"{part:.1f} %"
