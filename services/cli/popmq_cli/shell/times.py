"""Durations and points in time as people read them."""

import re
from typing import Final

from popmq_common.words import moment as moment  # as options that take a TIME read it

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,13}(?:\.\d{1,12})?)(ms|s|m|h|d)")


def duration_ms(text: str) -> int:
    """5s, 1.5m, 200ms. Raises `ValueError`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not text.isascii():
        raise ValueError(f"{text!r} is no duration; write 500ms, 5s, 10m, 2h or 7d")
    return round(float(found[1]) * _UNITS_MS[found[2]])


def duration_text(ms: int) -> str:
    """What `duration_ms` reads."""
    for unit in ("d", "h", "m", "s"):
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]}{unit}"
    return f"{ms}ms"


def span_text(ms: int) -> str:
    """About how long: 3.2 s, 14 min, 5.0 h."""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min" if ms < 3_600_000 else f"{ms / 3_600_000:.1f} h"
