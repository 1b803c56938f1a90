"""Curves as a table and a picture."""

from collections.abc import Mapping, Sequence
from io import StringIO

import matplotlib
from matplotlib.figure import Figure

from compare.plot import INK, OURS, schemed
from compare.report import number
from scaling.run import LOADS, Point

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
matplotlib.rcParams["svg.hashsalt"] = "popmq"  # the same figures make the same file

Curves = Mapping[str, Sequence[Point]]
"""By the name of the load; the fewest cores come first."""
HEAD = (
    "| load | cores | messages/s | times the first | server CPU µs per message | times the first "
    "| of it the supervisor | p99 ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def table(curves: Curves) -> str:
    """Markdown."""
    return "\n".join([HEAD, *(line for load in curves for line in _lines(load, curves[load]))])


def _lines(load: str, points: Sequence[Point]) -> list[str]:
    first = points[0]
    return [
        f"| {LOADS[load].title} | {one.cores} | {number(one.messages_per_s)} "
        f"| {one.messages_per_s / first.messages_per_s:.2f} | {number(one.cpu_us)} "
        f"| {one.cpu_us / first.cpu_us:.2f} | {number(one.supervisor_us)} | {number(one.p99_ms)} |"
        for one in points
    ]


def svg(curves: Curves) -> str:
    """Throughput by cores, and what it would be if each core brought as much as the first."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    places = figure.subplots(1, len(curves), squeeze=False)[0]
    for (load, points), place in zip(curves.items(), places, strict=True):
        cores = [one.cores for one in points]
        per_core = points[0].messages_per_s / points[0].cores
        place.plot(cores, [per_core * one for one in cores], "--", color=INK, label="as the first")
        place.plot(
            cores, [one.messages_per_s for one in points], "o-", color=OURS, label="measured"
        )
        place.set_xscale("log", base=2)
        place.set_yscale("log", base=2)
        place.set_xticks(cores, [str(one) for one in cores])
        ticks = [per_core * one for one in cores]
        place.set_yticks(ticks, [number(one) for one in ticks])
        place.set_title(
            f"{LOADS[load].title}: messages per second by cores", color=INK, fontsize=10
        )
        place.tick_params(which="both", colors=INK, length=0, labelsize=9)
        place.legend(frameon=False, labelcolor=INK, fontsize=9)
        place.spines[:].set_visible(False)
    text = StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return schemed(text.getvalue())
