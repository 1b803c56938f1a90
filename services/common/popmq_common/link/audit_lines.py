"""Lines of audit trails in memory: which ones somebody wants to see."""

import heapq
from collections.abc import Iterable
from typing import Final

from popmq_internal.v1 import link_pb2 as link

TEXTS: Final = ("user", "address", "call", "resource", "outcome", "target")
"""In which a text is looked for."""


def fits(line: link.AuditLine, wanted: link.WantedLines) -> bool:
    if wanted.what and line.what != wanted.what:
        return False
    if wanted.before_ms and line.at_ms >= wanted.before_ms:
        return False
    text = wanted.text.casefold()
    return not text or any(text in getattr(line, name).casefold() for name in TEXTS)


def newest(
    lines: Iterable[link.AuditLine], wanted: link.WantedLines
) -> tuple[list[link.AuditLine], bool]:
    """Those that fit, newest first, at most `count_max`; and whether there are older ones."""
    fitting = (line for line in lines if fits(line, wanted))
    found = heapq.nlargest(wanted.count_max + 1, fitting, key=lambda one: (one.at_ms, one.number))
    return found[: wanted.count_max], len(found) > wanted.count_max
