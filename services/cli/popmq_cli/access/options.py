"""What the commands of users and policies share: secrets from files, actions, what is told."""

import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from popmq_cli.shell.output import note
from popmq_readings.access_words import ACTIONS, KINDS, known

OTHERS_BITS: Final = 0o077
SECRET_BYTES_MAX: Final = 4_096


class SecretFile(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    """A secret, from a file that nobody else may read; - is standard input. Never an argument:
    other users of the machine see those."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            found = sys.stdin.buffer.read() if value == "-" else _owned(Path(value))
            secret = found[: SECRET_BYTES_MAX + 1].decode().strip()
        except (OSError, ValueError) as wrong:
            reason = "it is not UTF-8" if isinstance(wrong, UnicodeDecodeError) else wrong
            self.fail(f"{_shown(value)} cannot be read: {reason}", param, ctx)
        if not secret:
            self.fail(f"{_shown(value)} is empty", param, ctx)
        return secret


def _owned(path: Path) -> bytes:
    """Raises `OSError`, `ValueError`."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) and mode & OTHERS_BITS:
        raise ValueError(f"others may read it, too: chmod 600 {path}")
    return path.read_bytes()


def _shown(value: str) -> str:
    return "standard input" if value == "-" else value


class ActionList(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    """Pub,Sub in any case → ("Pub", "Sub")."""

    name = "actions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        try:
            return tuple(known(one, ACTIONS) for one in str(value).split(","))
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, begun = incomplete.rpartition(",")
        fitting = [one for one in ACTIONS if one.lower().startswith(begun.lower())]
        return [CompletionItem(f"{before}{comma}{one}") for one in fitting]


new_secret_option: Final = click.option(
    "--new-secret-file",
    "secret",
    type=SecretFile(),
    help="File with the user's new secret; - is standard input.",
)
"""Not --secret-file: that is the admin secret of whoever runs the command."""


def resources(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """The kinds there are; a name is written behind the colon."""
    return [CompletionItem(f"{kind}:") for kind in KINDS if f"{kind}:".startswith(begun)]


def all_of(parts: Sequence[Sequence[str]]) -> list[str]:
    """Of an option that may be repeated and takes several at a time; each one once."""
    return list(dict.fromkeys(one for part in parts for one in part))


def addresses(parts: Sequence[str]) -> list[str]:
    """Of --source-ip, which may be repeated and takes several with commas."""
    return all_of([part.split(",") for part in parts])


def tell_missing(brokers: Sequence[str]) -> None:
    """Of a change; programs find them in the document."""
    if brokers:
        these = ", ".join(brokers)
        do, they, are = (
            ("does", "It gets", "it is") if len(brokers) == 1 else ("do", "They get", "they are")
        )
        note(f"Warning: {these} {do} not have the change yet. {they} it when {are} back.")
