"""How commands print: tables for people, JSON for machines, one line for an error."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

EXIT_FAILED = 1
EXIT_UNREACHABLE = 3


class Amount(str):
    """A number with its unit, as text: a table puts it to the right."""


def colored(text: str, color: str) -> str:
    """In colour on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    plain = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))
    return text if plain else click.style(text, fg=color)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    for line in table_lines(headings, rows):
        click.echo(line)


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Columns as wide as needed; numbers and amounts to the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [
        max([len(heading), *(len(row[i]) for row in texts)]) for i, heading in enumerate(headings)
    ]
    amounts = [any(isinstance(row[i], Amount) for row in rows) for i in range(len(headings))]
    head = [
        heading.rjust(width) if is_amount else heading.ljust(width)
        for heading, width, is_amount in zip(headings, widths, amounts, strict=True)
    ]
    lines = [colored("  ".join(head).rstrip(), "cyan")]
    for row, cells in zip(rows, texts, strict=True):
        parts = [
            text.rjust(width) if isinstance(cell, int | float | Amount) else text.ljust(width)
            for cell, text, width in zip(row, cells, widths, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return lines


@contextmanager
def progress(label: str, *, shown: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere; it is told (done, of all)."""
    if not (shown and sys.stderr.isatty()):
        yield lambda _done, _total: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def tell(done: int, total: int) -> None:
            bar.length = max(1, total)
            bar.update(done - bar.pos)

        yield tell


def document(value: Any) -> None:
    """One JSON document on a line of its own."""
    click.echo(json.dumps(value, ensure_ascii=False))


def fail(text: str, code: int = EXIT_FAILED) -> None:
    """One line on stderr, and the process ends."""
    click.echo(f"popmq: {text}", err=True)
    sys.exit(code)
