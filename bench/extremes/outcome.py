"""What a benchmark found: figures, the limits they are held against, and both as a table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from compare.report import number


@dataclass(frozen=True)
class Figure:
    """One number; `below` is a limit that it must stay under, None: only told."""

    name: str
    value: float
    unit: str
    below: float | None = None
    exactly: float | None = None

    @property
    def holds(self) -> bool | None:
        """None where there is no limit."""
        if self.below is not None:
            return self.value < self.below
        return None if self.exactly is None else self.value == self.exactly


@dataclass(frozen=True)
class Outcome:
    """All figures of one benchmark, and the settings they were measured with."""

    name: str
    settings: dict[str, Any]
    figures: Sequence[Figure]

    @property
    def missed(self) -> list[str]:
        """Names of the figures beyond their limit."""
        return [figure.name for figure in self.figures if figure.holds is False]

    def document(self) -> dict[str, Any]:
        """For --json."""
        told = [{**asdict(figure), "holds": figure.holds} for figure in self.figures]
        return {"benchmark": self.name, "settings": self.settings, "figures": told}

    def text(self) -> str:
        """For people: a figure a line, then the verdict."""
        rows = [_row(figure) for figure in self.figures]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"  {name:<{widths[0]}}  {value:>{widths[1]}} {unit:<{widths[2]}}  {verdict}".rstrip()
            for name, value, unit, verdict in rows
        ]
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return "\n".join([f"{self.name}: {settings}", *lines, self._verdict()])

    def _verdict(self) -> str:
        if all(figure.holds is None for figure in self.figures):
            return "no limits are set"
        return "MISSED: " + ", ".join(self.missed) if self.missed else "every limit is kept"


def _row(figure: Figure) -> tuple[str, str, str, str]:
    value = "0" if figure.value == 0 else number(figure.value)
    return figure.name, value, figure.unit, _verdict(figure)


def _verdict(figure: Figure) -> str:
    if figure.holds is None:
        return ""
    limit = f"< {figure.below:g}" if figure.below is not None else f"= {figure.exactly:g}"
    return f"{limit}  {'ok' if figure.holds else 'MISSED'}"
