"""Counts, sizes, rates and times in few characters, for tables that are read at a glance."""

from typing import Final


class NumberText(str):
    """A number with its unit, as text: a table puts it to the right."""


_COUNT_WHOLE_MAX: Final = 99_999
_COUNT_UNITS: Final = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))
_BYTE_UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400
NONE: Final = NumberText("-")
"""What is not known."""


def count_text(count: float) -> NumberText:
    """Exact up to 99,999, then 123k, 4.6M."""
    if abs(count) <= _COUNT_WHOLE_MAX:
        return NumberText(f"{count:,.0f}")
    for size, unit in _COUNT_UNITS:
        if abs(count) >= size:
            return NumberText(_short(count / size) + unit)
    raise AssertionError("a count that is not small has a unit")


def bytes_text(size_bytes: float) -> NumberText:
    for size, unit in _BYTE_UNITS:
        if size_bytes >= size:
            return NumberText(f"{_short(size_bytes / size)} {unit}")
    return NumberText(f"{size_bytes:.0f} B")


def rate_text(per_second: float | None) -> NumberText:
    """With a decimal where it tells something; None: not known yet."""
    if per_second is None:
        return NONE
    return NumberText(f"{per_second:.1f}") if 0 < per_second < 10 else count_text(per_second)


def percent_text(ratio: float | None) -> NumberText:
    return NONE if ratio is None else NumberText(f"{100 * ratio:.0f}%")


def up_text(ms: int) -> NumberText:
    """The two largest units: 3d 4h, 12m 5s."""
    rest_s = max(0, ms) // 1000
    parts: list[str] = []
    for size_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m"), (1, "s")):
        whole, rest_s = divmod(rest_s, size_s)
        if whole or parts or unit == "s":
            parts.append(f"{whole}{unit}")
    return NumberText(" ".join(parts[:2]))


def clipped(text: str, width: int) -> str:
    """Shortened in the middle: names differ at both ends."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _short(number: float) -> str:
    return f"{number:.1f}" if abs(number) < 10 else f"{number:,.0f}"
