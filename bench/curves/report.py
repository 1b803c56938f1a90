"""A curve as a table and a picture."""

from collections.abc import Sequence
from io import StringIO

import matplotlib
from matplotlib.figure import Figure

from compare.plot import INK, OURS, schemed
from compare.report import number
from curves.point import CurvePoint

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
matplotlib.rcParams["svg.hashsalt"] = "popmq"  # the same figures make the same file


def table(unit: str, points: Sequence[CurvePoint]) -> str:
    """Markdown."""
    head = (
        f"| {unit} | messages/s | server CPU µs per message | times the first | p99 ms "
        "| memory MiB |\n| ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    first = points[0]
    lines = [
        f"| {one.value:,} | {number(one.messages_per_s)} | {number(one.cpu_us)} "
        f"| {one.cpu_us / first.cpu_us:.2f} | {'–' if one.p99_ms is None else number(one.p99_ms)} "
        f"| {number(one.memory_mib) if one.memory_mib else '0'} |"
        for one in points
    ]
    return "\n".join([head, *lines])


def svg(unit: str, points: Sequence[CurvePoint]) -> str:
    """CPU time per message, and memory, by the value."""
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    values = [one.value for one in points]
    sides = (
        ("server CPU µs per message", [one.cpu_us for one in points]),
        ("memory, MiB", [max(one.memory_mib, 0.1) for one in points]),
    )
    for place, (title, found) in zip(figure.subplots(1, 2), sides, strict=True):
        place.plot(values, found, "o-", color=OURS)
        place.set_xscale("log")
        place.set_yscale("log")
        place.set_xticks(values, [_short(one) for one in values], minor=False)
        place.set_yticks(sorted({min(found), max(found)}), minor=False)
        place.set_yticklabels([number(one) for one in sorted({min(found), max(found)})])
        place.minorticks_off()
        place.set_ylim(min(found) / 2, max(found) * 2)
        place.set_title(f"{title}, by {unit}", color=INK, fontsize=10)
        place.tick_params(which="both", colors=INK, length=0, labelsize=9)
        place.spines[:].set_visible(False)
    text = StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return schemed(text.getvalue())


def _short(value: int) -> str:
    """1,000,000 as 1M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return str(value)
