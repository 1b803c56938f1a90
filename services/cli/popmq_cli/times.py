"""Points in time as people write them."""

import re
from datetime import UTC, datetime

import click

_AGO = re.compile(r"(\d+)(s|m|h|d)")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def point_in_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970.

    `30m` is half an hour ago; else ISO 8601 (in UTC when it names no zone) or milliseconds.
    Raises `click.BadParameter`.
    """
    if ago := _AGO.fullmatch(text):
        return now_ms - int(ago[1]) * _UNITS_MS[ago[2]]
    if text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no point in time; use 30m, 2h or 7d for so long ago, "
            "2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
