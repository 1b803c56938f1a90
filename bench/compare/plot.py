"""The results as a picture: throughput and CPU by load, two bars each, for light and dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from compare.report import number
from compare.results import Summary
from compare.systems import COMPILED, FLUSHES, PAIRS, Case
from compare.workloads import ROWS

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
matplotlib.rcParams["svg.hashsalt"] = "popmq"  # the same figures make the same file

INK = "#010203"
"""Stands for the text's colour, which the page's own scheme decides."""
STYLE = (
    "<style>svg{color:#24292f;font-family:sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#d0d7de}}</style>"
)
OURS, COMPILED_OURS, THEIRS = "#3b8eea", "#2f5fb3", "#d9822b"
BARS_HEIGHT = 0.78
"""Of all bars of a load together, in distances between loads."""
LABEL_ROOM = 3.0
"""Factor by which the axis is longer than the longest bar, for its label."""


@dataclass(frozen=True)
class Bars:
    """One system's bars: a value for each label of the panel, or None."""

    name: str
    colour: str
    values: list[float | None]


@dataclass(frozen=True)
class Panel:
    """Bars of one measure for each label."""

    axis: str
    labels: list[str]
    sides: list[Bars]


def panels(summary: Summary) -> list[Panel]:
    """Throughput and CPU of the first pairs that were measured against one peer, in the table's
    order; else none."""
    sides = _sides(summary.cases())
    rows = [
        row
        for row in ROWS.values()
        if any((case, row.name) in summary.rows for _, _, case in sides)
    ]

    def values(case: Case, name: str) -> list[float | None]:
        measured = [summary.rows.get((case, row.name)) for row in rows]
        return [float(getattr(one, name)) if one else None for one in measured]

    return [
        Panel(
            axis,
            [row.title for row in rows],
            [Bars(title, colour, values(case, name)) for title, colour, case in sides],
        )
        for axis, name in (
            ("messages per second, logarithmic; longer is better", "messages_per_s"),
            ("server CPU µs per message, logarithmic; shorter is better", "server_cpu_us"),
        )
        if sides
    ]


def _sides(cases: Sequence[Case]) -> list[tuple[str, str, Case]]:
    """(name, colour, case) of ours and of the one peer they are compared with."""
    for flush in FLUSHES:
        for pair in PAIRS:
            theirs = Case(pair.theirs, flush)
            ours = [
                (Case(other.ours, flush), other.ours.endswith(COMPILED))
                for other in PAIRS
                if other.theirs == pair.theirs
                and other.ours.removesuffix(COMPILED) == pair.ours.removesuffix(COMPILED)
            ]
            shown = [
                ("PopMQ, compiled", COMPILED_OURS, case) if compiled else ("PopMQ", OURS, case)
                for case, compiled in ours
                if case in cases
            ]
            if shown and theirs in cases:
                return [*shown, ("Apache RocketMQ", THEIRS, theirs)]
    return []


def svg(shown: Sequence[Panel]) -> str:
    """The picture; at least one panel."""
    height = 1.2 + 0.6 * max(len(panel.labels) for panel in shown)
    figure = Figure(figsize=(11, height), layout="constrained")
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, place in zip(shown, axes, strict=True):
        _draw(panel, place)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=3, frameon=False, labelcolor=INK)
    text = StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return schemed(text.getvalue())


def _draw(panel: Panel, axes: Axes) -> None:
    height = BARS_HEIGHT / len(panel.sides)
    for turn, side in enumerate(panel.sides):
        shift = (turn - (len(panel.sides) - 1) / 2) * height
        places = [index + shift for index in range(len(side.values))]
        lengths = [value or 0.0 for value in side.values]
        bars = axes.barh(places, lengths, height, color=side.colour, label=side.name)
        labels = [number(value) for value in side.values]
        axes.bar_label(bars, labels, padding=3, color=INK, fontsize=8)
    known = [value for side in panel.sides for value in side.values if value]
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
