"""A dashboard as a table of its graphs, and the JSON that Grafana reads."""

from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 12, 8
"""Of a panel; Grafana's grid has 24 columns."""
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
        "panels": [_panel(place, panel) for place, panel in enumerate(board.panels)],
    }


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


def _panel(place: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(place, 2)
    return {
        "id": place + 1,
        "title": panel.title,
        "description": panel.about,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for i, (legend, expr) in enumerate(panel.lines.items())
        ],
    }
