"""Figures of the dashboards' panels from a Prometheus, with legends and amounts as in Grafana."""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "grafana/dashboards"
POINTS = 120
"""Of a line."""
GRID_WIDTH = 24
"""Columns of Grafana's grid."""
TIMEOUT_S = 10.0
MINUTES_FROM_S = 300.0
"""Longer times are told in minutes."""
BYTES = ("bytes", "Bps")
"""Units whose steps are powers of 1,024."""


class Line(NamedTuple):
    legend: str
    points: list[tuple[float, float]]
    """(seconds since 1970, value); values that are no number are left out."""

    @property
    def last(self) -> float:
        return self.points[-1][1]


class Drawn(NamedTuple):
    """A panel with what Prometheus has for it."""

    title: str
    kind: str
    unit: str
    x: int
    y: int
    width: int
    height: int
    lines: list[Line]


class Span(NamedTuple):
    """Of the pictures, in seconds since 1970."""

    start_s: float
    end_s: float

    @property
    def step_s(self) -> float:
        return max(1.0, (self.end_s - self.start_s) / POINTS)


class Board(NamedTuple):
    name: str
    title: str
    span: Span
    panels: list[Drawn]

    @property
    def empty(self) -> list[str]:
        """Titles of panels without a line."""
        return [panel.title for panel in self.panels if not panel.lines]


def boards(address: str, span: Span) -> list[Board]:
    """All dashboards. Raises `OSError`."""
    found = []
    for file in sorted(FOLDER.glob("*.json")):
        told = json.loads(file.read_text())
        panels = [_drawn(address, span, panel) for panel in told["panels"]]
        found.append(Board(file.stem, told["title"], span, panels))
    return found


def _drawn(address: str, span: Span, panel: Mapping[str, Any]) -> Drawn:
    place = panel["gridPos"]
    lines = [line for target in panel["targets"] for line in _lines(address, span, target)]
    unit = panel["fieldConfig"]["defaults"]["unit"]
    sizes = (place["x"], place["y"], place["w"], place["h"])
    return Drawn(panel["title"], panel["type"], unit, *sizes, lines)


def _lines(address: str, span: Span, target: Mapping[str, str]) -> list[Line]:
    query = {
        "query": re.sub(r"\$(group|topic)\b", ".+", target["expr"]),
        "start": f"{span.start_s:.3f}",
        "end": f"{span.end_s:.3f}",
        "step": f"{span.step_s:g}",
    }
    url = f"{address}/api/v1/query_range?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        rows = json.load(answer)["data"]["result"]
    found = []
    for row in rows:
        points = [(float(at), float(value)) for at, value in row["values"]]
        points = [(at, value) for at, value in points if abs(value) < float("inf")]
        if points:
            found.append(Line(legend(target["legendFormat"], row["metric"]), points))
    return found


def legend(form: str, labels: Mapping[str, str]) -> str:
    """As Grafana writes it: {{label}} is the label's value."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form).strip()


def amount(value: float, unit: str) -> str:
    """Short, in a unit that people read."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s" and abs(value) >= MINUTES_FROM_S:
        return f"{value / 60:.3g} min"
    if unit == "s":
        for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
            if abs(value * factor) >= 1 or name == "µs" or not value:
                return f"{value * factor:.3g} {name}"
    if unit in BYTES:
        return _scaled(value, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB")) + "/s" * (unit == "Bps")
    per_second = "/s" if unit == "cps" else ""
    return _scaled(value, 1000.0, ("", "k", "M", "G", "T")).rstrip() + per_second


def _scaled(value: float, by: float, names: Sequence[str]) -> str:
    for name in names[:-1]:
        if abs(value) < by:
            return f"{value:.3g} {name}"
        value /= by
    return f"{value:.3g} {names[-1]}"
