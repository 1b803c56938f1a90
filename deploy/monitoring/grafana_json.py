"""A dashboard as a table of its graphs, and the JSON that Grafana reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

COLUMNS = 2
WIDTH, HEIGHT, NUMBERS_HEIGHT = 12, 8, 4
"""Of a panel; Grafana's grid has 24 columns. A row of numbers alone is lower."""
SOURCE = {"type": "prometheus", "uid": "popmq"}


@dataclass(frozen=True)
class Panel:
    """A graph. `lines`: what is drawn, by the legend's text."""

    title: str
    unit: str
    lines: dict[str, str]
    about: str = ""
    kind: str = "timeseries"


@dataclass(frozen=True)
class Dashboard:
    name: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """(name, query): what a reader chooses at the top."""


def document(board: Dashboard) -> dict[str, Any]:
    """As Grafana 9 and newer read it."""
    return {
        "uid": f"popmq-{board.name}",
        "title": board.title,
        "tags": ["popmq"],
        "schemaVersion": 37,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_variable(name, query) for name, query in board.variables]},
        "panels": list(_panels(board.panels)),
    }


def _panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """Row by row."""
    y = 0
    for first in range(0, len(panels), COLUMNS):
        row = panels[first : first + COLUMNS]
        height = NUMBERS_HEIGHT if all(panel.kind == "stat" for panel in row) else HEIGHT
        for column, panel in enumerate(row):
            place = {"x": column * WIDTH, "y": y, "w": WIDTH, "h": height}
            yield _panel(first + column, panel, place)
        y += height


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number + 1,
        "title": panel.title,
        "description": panel.about,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for i, (legend, expr) in enumerate(panel.lines.items())
        ],
    }
