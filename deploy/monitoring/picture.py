"""Draws the dashboards as pictures, a page each, from what a Prometheus has of the last minutes.

python deploy/monitoring/picture.py http://localhost:9090 --minutes 10 --into docs/dashboards

It needs matplotlib. Panels and queries are those of grafana/dashboards, so a panel that is empty in
Grafana is empty here; the command then names it, and its exit code is 1.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from board_figures import Board, Span, boards


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="picture.py", description=__doc__)
    parser.add_argument("prometheus", help="its address")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--into", type=Path, default=Path("."), metavar="DIR")
    parser.add_argument("--format", choices=["png", "svg"], default="png")
    options = parser.parse_args(words)
    now_s = time.time()
    found = boards(options.prometheus, Span(now_s - options.minutes * 60, now_s))
    empty = draw(found, options.into, options.format)
    for place in empty:
        print(f"{place} is empty", file=sys.stderr)
    return 1 if empty else 0


def draw(found: Sequence[Board], into: Path, form: str = "png") -> list[str]:
    """A file each; returns the panels that are empty."""
    from picture_page import page  # matplotlib is needed from here on alone

    into.mkdir(parents=True, exist_ok=True)
    for board in found:
        page(board, into / f"{board.name}.{form}")
    return [f"{board.title}: {title}" for board in found for title in board.empty]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
