"""One dashboard as a page of graphs, with matplotlib."""

import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import matplotlib
from board_figures import BYTES, GRID_WIDTH, Board, Drawn, Line, Span, amount
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from PIL import Image

matplotlib.rcParams["svg.hashsalt"] = "popmq"  # the same figures make the same file
matplotlib.rcParams["font.family"] = "DejaVu Sans"

DOTS_PER_IN = 96
PNG_COLOURS = 64
WIDTH_IN = 13.0
ROW_IN = 0.34
"""Of Grafana's grid."""
HEAD_IN = 0.5
GAP_IN = 0.1
TITLE_IN, LEGEND_IN, TICKS_IN = 0.32, 0.18, 0.25
LEGEND_LINES_MAX = 3
LEGEND_COLUMNS = 2
AXIS_IN = 0.75
LEGEND_CHARS_MAX = 46
PAGE, PANEL, INK, FAINT, GRID = "#f2f3f5", "#ffffff", "#24292f", "#6b7280", "#e4e7eb"
COLOURS = (
    *("#3274d9", "#e0752d", "#56a64b", "#a352cc", "#e02f44", "#0a9396"),
    *("#8b5e34", "#c15c8b", "#73808c", "#b5a100"),
)


def page(board: Board, into: Path) -> None:
    """Written in the format of its ending."""
    span = board.span
    rows = max(panel.y + panel.height for panel in board.panels)
    height_in = HEAD_IN + rows * ROW_IN + GAP_IN
    figure = Figure(figsize=(WIDTH_IN, height_in), facecolor=PAGE)
    at = 1 - 0.3 / height_in
    figure.text(0.012, at, board.title, size=13, weight="bold", color=INK, va="center")
    minutes = f"{(span.end_s - span.start_s) / 60:.0f} minutes"
    figure.text(0.988, at, minutes, size=9, color=FAINT, va="center", ha="right")
    for panel in board.panels:
        _panel(figure, height_in, panel, span)
    if into.suffix != ".png":
        figure.savefig(into, facecolor=PAGE)
        return
    drawn = BytesIO()
    figure.savefig(drawn, dpi=DOTS_PER_IN, facecolor=PAGE, format="png")
    with Image.open(drawn) as picture:  # graphs need few colours, and so a third of the bytes
        picture.convert("RGB").quantize(PNG_COLOURS).save(into, optimize=True)


def _panel(figure: Figure, height_in: float, panel: Drawn, span: Span) -> None:
    left = GAP_IN + panel.x / GRID_WIDTH * (WIDTH_IN - GAP_IN)
    width = panel.width / GRID_WIDTH * (WIDTH_IN - GAP_IN) - GAP_IN
    top = height_in - HEAD_IN - panel.y * ROW_IN
    height = panel.height * ROW_IN - GAP_IN

    def axes(x_in: float, y_in: float, w_in: float, h_in: float) -> Axes:
        """Inside the panel, from its lower left corner."""
        bottom = top - height + y_in
        place = ((left + x_in) / WIDTH_IN, bottom / height_in, w_in / WIDTH_IN, h_in / height_in)
        made: Axes = figure.add_axes(place)
        return made

    frame = axes(0, 0, width, height)
    frame.set_facecolor(PANEL)
    frame.set_xticks([])
    frame.set_yticks([])
    for side in frame.spines.values():
        side.set_color(GRID)
    title_at = 1 - TITLE_IN / 2 / height
    frame.text(0.1 / width, title_at, panel.title, size=9.5, weight="bold", color=INK, va="center")
    if not panel.lines:
        frame.text(0.5, 0.45, "no data", size=11, color=FAINT, ha="center", va="center")
    elif panel.kind == "stat":
        _numbers(frame, panel, width, height)
    else:
        lines = _largest_first(panel.lines)
        legend_rows = min(LEGEND_LINES_MAX, -(-len(lines) // LEGEND_COLUMNS))
        below = legend_rows * LEGEND_IN + 0.08
        plot = axes(
            AXIS_IN,
            below + TICKS_IN,
            width - AXIS_IN - 0.15,
            height - below - TICKS_IN - TITLE_IN,
        )
        _graph(plot, panel, lines, span)
        _legend(frame, lines, panel.unit, width, height)


def _largest_first(lines: list[Line]) -> list[Line]:
    """By what was largest, so that what a legend leaves out matters least."""
    return sorted(lines, key=lambda line: -max(value for _, value in line.points))


def _graph(axes: Axes, panel: Drawn, lines: list[Line], span: Span) -> None:
    seen: set[tuple[tuple[float, float], ...]] = set()
    for place, line in enumerate(lines):
        times, values = zip(*line.points, strict=True)
        points = tuple(line.points)
        axes.plot(
            times,
            values,
            color=COLOURS[place % len(COLOURS)],
            lw=1.4,
            ls=(0, (4, 4)) if points in seen else "-",  # one on the other: both are seen
            marker="o" if len(points) == 1 else "",
            ms=3,
        )
        seen.add(points)
    top = max(value for line in lines for _, value in line.points) or 1.0
    axes.set_xlim(span.start_s, span.end_s)
    axes.set_ylim(0, top * 1.12)
    axes.set_facecolor(PANEL)
    axes.grid(color=GRID, lw=0.8)
    for name, side in axes.spines.items():
        side.set_visible(name == "bottom")
        side.set_color(GRID)
    axes.tick_params(labelsize=7.5, colors=FAINT, length=0)
    axes.yaxis.set_major_locator(FixedLocator(_marks(top * 1.1, panel.unit)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value, panel.unit)))
    axes.xaxis.set_major_locator(FixedLocator(_times(span)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: _clock(at)))


def _marks(top: float, unit: str) -> Sequence[float]:
    """Round amounts from 0 to `top`, in the unit that they are told in."""
    factor = 1.0
    while unit in BYTES and top / factor >= 1024:
        factor *= 1024
    if unit == "s" and top >= 300:
        factor = 60.0
    locator = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=unit == "short" and top < 10)
    return [mark * factor for mark in locator.tick_values(0, top / factor)]


def _times(span: Span) -> Sequence[float]:
    """Some six round moments."""
    steps_s = (5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600)
    step_s = next((one for one in steps_s if (span.end_s - span.start_s) / one <= 7), 7_200)
    first = -(-span.start_s // step_s) * step_s
    return [first + place * step_s for place in range(8) if first + place * step_s <= span.end_s]


def _clock(at_s: float) -> str:
    form = "%H:%M:%S" if at_s % 60 else "%H:%M"
    return time.strftime(form, time.gmtime(at_s))


def _legend(frame: Axes, lines: list[Line], unit: str, width: float, height: float) -> None:
    """The first lines with their last values; how many there are more."""
    room = LEGEND_LINES_MAX * LEGEND_COLUMNS
    shown = lines if len(lines) <= room else lines[: room - 1]
    rows = min(LEGEND_LINES_MAX, -(-len(lines) // LEGEND_COLUMNS))
    step = (width - 0.3) / LEGEND_COLUMNS
    for place in range(min(len(lines), room)):
        column, row = divmod(place, rows)
        x = (0.15 + column * step) / width
        y = (0.1 + (rows - row - 0.5) * LEGEND_IN) / height
        if place >= len(shown):
            text, colour = f"and {len(lines) - len(shown)} more", FAINT
        else:
            line, colour = shown[place], COLOURS[place % len(COLOURS)]
            text = f"{_clipped(line.legend)}  {amount(line.last, unit)}"
            frame.plot([x, x + 0.14 / width], [y, y], color=colour, lw=2.2, solid_capstyle="butt")
        frame.text(x + 0.2 / width, y, text, size=7.5, color=INK, va="center")
    frame.set_xlim(0, 1)
    frame.set_ylim(0, 1)


def _numbers(frame: Axes, panel: Drawn, width: float, height: float) -> None:
    """What holds now, large."""
    room = 8
    lines = panel.lines[:room]
    columns = min(len(lines), 4)
    rows = -(-len(lines) // columns)
    for place, line in enumerate(lines):
        row, column = divmod(place, columns)
        x = (column + 0.5) / columns
        usable = height - TITLE_IN - 0.15
        middle = (0.1 + usable * (rows - row - 0.5) / rows) / height
        big = 18 if rows == 1 else 13
        frame.text(
            x,
            middle + 0.06 / height,
            amount(line.last, panel.unit),
            size=big,
            weight="bold",
            color=COLOURS[0],
            ha="center",
            va="bottom",
        )
        text = _clipped(line.legend, 30)
        frame.text(x, middle - 0.02 / height, text, size=8, color=FAINT, ha="center", va="top")


def _clipped(text: str, chars: int = LEGEND_CHARS_MAX) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"
