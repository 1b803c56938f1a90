"""Durations and points in time as people write them."""

import re
from datetime import UTC, datetime
from typing import Final

import click

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


YEAR_DIGITS: Final = 8
"""20260131 is a day, longer numbers are milliseconds."""


def duration_ms(text: str) -> int:
    """5s, 1.5m, 200ms. Raises `ValueError`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no duration like 500ms, 5s, 10m or 2h")
    return round(float(found[1]) * _UNITS_MS[found[2]])


def duration_text(ms: int) -> str:
    for unit in ("h", "m", "s"):
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]}{unit}"
    return f"{ms}ms"


def moment(ms: int) -> str:
    """In UTC, to the millisecond."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def span_text(ms: int) -> str:
    """About how long: 3.2 s, 14 min, 5.0 h."""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min" if ms < 3_600_000 else f"{ms / 3_600_000:.1f} h"


def point_in_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970.

    `30m` is half an hour ago; else ISO 8601 (in UTC when it names no zone) or milliseconds.
    Raises `click.BadParameter`.
    """
    if _DURATION.fullmatch(text):
        return now_ms - duration_ms(text)
    if text.isascii() and text.isdigit() and len(text) > YEAR_DIGITS:
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no point in time; use 30m, 2h or 7d for so long ago, "
            "2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
