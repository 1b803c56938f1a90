"""How commands print: tables for people, JSON for machines, one line for an error."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from google.protobuf.message import Message

from popmq_readings.short_numbers import NumberText

EXIT_FAILED = 1
EXIT_UNREACHABLE = 3


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
    amounts = [any(isinstance(row[i], NumberText) for row in rows) for i in range(len(headings))]
    head = [
        heading.rjust(width) if is_amount else heading.ljust(width)
        for heading, width, is_amount in zip(headings, widths, amounts, strict=True)
    ]
    lines = [colored("  ".join(head).rstrip(), "cyan")]
    for row, cells in zip(rows, texts, strict=True):
        parts = [
            text.rjust(width) if isinstance(cell, int | float | NumberText) else text.ljust(width)
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


def fields(message: Message) -> dict[str, Any]:
    """For JSON: names in camelCase, numbers as numbers, defaults shown, null for what is absent."""
    return {field.json_name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Message, field: Any) -> Any:
    """`field`: a descriptor of one of protobuf's implementations."""
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return dict(value)
    if field.is_repeated:
        return [_plain(one) for one in value]
    return None if field.has_presence and not message.HasField(field.name) else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return fields(value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def is_json() -> bool:
    """Whether the command that runs was given --json."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("as_json"))


def note(text: str) -> None:
    """A line on stderr for people; programs find the same in the document."""
    if not is_json():
        click.echo(text, err=True)


def fail(text: str, code: int = EXIT_FAILED) -> NoReturn:
    """One line on stderr, and the process ends."""
    tell_error(text, code, as_json=is_json())
    sys.exit(code)


def tell_error(text: str, code: int, *, as_json: bool) -> None:
    click.echo(error_line(text, code, as_json), err=True, nl=False)


def error_line(text: str, code: int, as_json: bool) -> str:
    told = {"error": text, "exitCode": code}
    return (json.dumps(told, ensure_ascii=False) if as_json else f"popmq: {text}") + "\n"


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`. Programs are not asked: they say --yes, or the command ends."""
    if yes:
        return
    if is_json():
        raise click.UsageError("with --json nothing is asked: say --yes")
    click.confirm(question, abort=True, err=True)
