"""The results as a picture: throughput and CPU by load, two bars each, for light and dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from compare.report import number
from compare.results import Summary
from compare.systems import FLUSHES, PAIRS, Case
from compare.workloads import ROWS

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
matplotlib.rcParams["svg.hashsalt"] = "popmq"  # the same figures make the same file

INK = "#010203"
"""Stands for the text's colour, which the page's own scheme decides."""
STYLE = (
    "<style>svg{color:#24292f;font-family:sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#d0d7de}}</style>"
)
OURS, THEIRS = "#3b8eea", "#d9822b"
BAR_HEIGHT = 0.38
LABEL_ROOM = 3.0
"""Factor by which the axis is longer than the longest bar, for its label."""


@dataclass(frozen=True)
class Panel:
    """Bars of one measure: for each label a value of ours and one of theirs, or None."""

    axis: str
    labels: list[str]
    ours: list[float | None]
    theirs: list[float | None]


def panels(summary: Summary) -> list[Panel]:
    """Throughput and CPU of the first pair that was measured, in the table's order; else none."""
    cases = summary.cases()
    pairs = [
        (Case(pair.ours, flush), Case(pair.theirs, flush)) for flush in FLUSHES for pair in PAIRS
    ]
    both = [(ours, theirs) for ours, theirs in pairs if ours in cases and theirs in cases]
    if not both:
        return []
    ours, theirs = both[0]
    rows = [
        row
        for row in ROWS.values()
        if (ours, row.name) in summary.rows or (theirs, row.name) in summary.rows
    ]

    def values(case: Case, name: str) -> list[float | None]:
        measured = [summary.rows.get((case, row.name)) for row in rows]
        return [float(getattr(one, name)) if one else None for one in measured]

    return [
        Panel(axis, [row.title for row in rows], values(ours, name), values(theirs, name))
        for axis, name in (
            ("messages per second, logarithmic; longer is better", "messages_per_s"),
            ("server CPU µs per message, logarithmic; shorter is better", "server_cpu_us"),
        )
    ]


def svg(shown: Sequence[Panel]) -> str:
    """The picture; at least one panel."""
    height = 1.2 + 0.5 * max(len(panel.labels) for panel in shown)
    figure = Figure(figsize=(11, height), layout="constrained")
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, place in zip(shown, axes, strict=True):
        _draw(panel, place)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=2, frameon=False, labelcolor=INK)
    text = StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return schemed(text.getvalue())


def _draw(panel: Panel, axes: Axes) -> None:
    sides = [("PopMQ", OURS, panel.ours, -0.5), ("Apache RocketMQ", THEIRS, panel.theirs, 0.5)]
    for name, colour, values, side in sides:
        places = [index + side * BAR_HEIGHT for index in range(len(values))]
        bars = axes.barh(
            places, [value or 0.0 for value in values], BAR_HEIGHT, color=colour, label=name
        )
        labels = [number(value) for value in values]
        axes.bar_label(bars, labels, padding=3, color=INK, fontsize=8)
    known = [value for value in (*panel.ours, *panel.theirs) if value]
    if known:
        axes.set_xscale("log")
        axes.set_xlim(10 ** _decade_below(min(known)), max(known) * LABEL_ROOM)
    axes.set_yticks(range(len(panel.labels)), panel.labels)
    axes.set_ylim(len(panel.labels) - 0.5, -0.5)
    axes.set_xlabel(panel.axis, color=INK, fontsize=9)
    axes.tick_params(which="both", colors=INK, length=0, labelsize=9)
    axes.spines[:].set_visible(False)
    axes.spines["left"].set(visible=True, color=INK)


def _decade_below(value: float) -> int:
    """Exponent of the power of ten that is surely below the value."""
    exponent = 0
    while 10**exponent * 1.5 >= value:
        exponent -= 1
    while 10 ** (exponent + 1) * 1.5 < value:
        exponent += 1
    return exponent


def schemed(picture: str) -> str:
    """The text's colour follows the page: dark on light, light on dark."""
    head, mark, rest = picture.replace(INK, "currentColor").partition("<defs>")
    return f"{head}{STYLE}{mark}{rest}"
