"""Lines over time as SVG inside a page: no script, readable on a phone, also in the dark."""

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

Points = Sequence[tuple[int, float]]
"""(ms since 1970, value), in the order of time."""

_WIDTH: Final = 640
_HEIGHT: Final = 200
_LEFT: Final = 64
"""For the figures of the axis."""
_BOTTOM: Final = 24
_TOP: Final = 10
_STEPS: Final = (1, 2, 5, 10)


def chart(title: str, unit: str, series: Mapping[str, Points]) -> str:
    """Nothing where there is no line: one point alone tells no course."""
    shown = {name: points for name, points in series.items() if len(points) > 1}
    if not shown:
        return ""
    times = [at for points in shown.values() for at, _ in points]
    first, last = min(times), max(times)
    top = _round_up(max(value for points in shown.values() for _, value in points))
    lines = "".join(
        _line(number, [_spot(at, value, first, last, top) for at, value in points])
        for number, points in enumerate(shown.values())
    )
    names = "".join(
        f"<li class=line{number}>{html.escape(name)}</li>" for number, name in enumerate(shown)
    )
    legend = f"<ul class=legend>{names}</ul>" if len(shown) > 1 else ""
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img aria-label="{html.escape(title)}">'
        f"{_axes(first, last, top, unit)}{lines}</svg>{legend}</figure>"
    )


def _spot(at: int, value: float, first: int, last: int, top: float) -> tuple[float, float]:
    share = (at - first) / (last - first) if last > first else 0.5
    x = _LEFT + share * (_WIDTH - _LEFT - 8)
    y = _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _BOTTOM - _TOP)
    return x, y


def _line(number: int, spots: Sequence[tuple[float, float]]) -> str:
    told = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    return f'<polyline class=line{number} points="{told}"/>'


def _axes(first: int, last: int, top: float, unit: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - _TOP)
        parts.append(
            f'<path class=grid d="M{_LEFT} {y:.1f}H{_WIDTH - 8}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor=end>'
            f"{_figure(top * share, unit)}</text>"
        )
    ends = [(_LEFT, "start", first), (_WIDTH - 8, "end", last)][: 2 if last > first else 1]
    for x, anchor, at in ends:
        parts.append(f'<text x="{x}" y="{_HEIGHT - 6}" text-anchor={anchor}>{_clock(at)}</text>')
    return "".join(parts)


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10 …: where an axis ends."""
    scale = 1.0
    while value > _STEPS[-1] * scale:
        scale *= 10
    return next(step * scale for step in _STEPS if value <= step * scale)


def _figure(value: float, unit: str) -> str:
    if unit == "ms":
        return f"{value / 1_000:g} s" if value >= 1_000 else f"{value:g} ms"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%m-%d %H:%M")
