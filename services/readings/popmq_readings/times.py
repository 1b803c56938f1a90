"""Durations and points in time as people read them."""

import re
from datetime import UTC, datetime
from typing import Final

from popmq_common.words import moment as moment  # as options that take a TIME read it

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TIME_MS_MAX: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)
YEAR_DIGITS: Final = 8
"""20260131 is a day, longer numbers are milliseconds."""
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


def point_in_time(text: str, now_ms: int, *, ago: bool = True) -> int:
    """Milliseconds since 1970. Raises `ValueError`."""
    text = text.strip()
    found = _ago(text, now_ms) if ago else None
    if text.isascii() and text.isdigit() and len(text) > YEAR_DIGITS:
        found = int(text[:20])
    elif found is None:
        found = _iso(text)
    if found is None or not 0 <= found <= TIME_MS_MAX:
        also = ", 30m, 2h or 7d for that long ago," if ago else ""
        raise ValueError(
            f"{text!r} is no time; write {moment(now_ms)}{also} or milliseconds since 1970"
        )
    return found


def _ago(text: str, now_ms: int) -> int | None:
    try:
        return now_ms - duration_ms(text)
    except ValueError:
        return None


def _iso(text: str) -> int | None:
    try:
        when = datetime.fromisoformat(text)
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
