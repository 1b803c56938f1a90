"""The classes of all commands: help in sections, mistakes told in one way."""

import difflib
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from popmq_cli.shell.output import tell_error

EXIT_ABORTED: Final = 1
json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; an error is a JSON object on stderr."
)


class ServerOption(click.Option):
    """One of those that every command has which talks to a server; shown in a section below."""


class Command(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        of_server: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            if isinstance(param, click.Argument):  # told in the text
                continue
            record = param.get_help_record(ctx)
            if record is not None:
                (of_server if isinstance(param, ServerOption) else own).append(record)
        for title, records in (("Options", own), ("Server", of_server)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class CommandGroup(click.Group):
    """With commands of the class above, and a guess at what a wrong word was meant to be."""

    command_class = Command
    group_class = type

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        Command.format_options(self, ctx, formatter)  # type: ignore[arg-type]
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            meant = difflib.get_close_matches(word, self.list_commands(ctx), 3, 0.5)
            guess = f" Did you mean {' or '.join(meant)}?" if meant else ""
            ctx.fail(f"No such command {word!r}.{guess}")
        return super().resolve_command(ctx, args)


class Root(CommandGroup):
    """The whole command: what is wrong is one line, or one JSON object with --json."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(words, prog_name, complete_var, False, **extra)
        as_json = "--json" in words[: words.index("--") if "--" in words else len(words)]
        try:
            code = super().main(words, prog_name, complete_var, False, **extra)
        except click.ClickException as wrong:
            if as_json:
                tell_error(wrong.format_message(), wrong.exit_code, as_json=True)
            else:
                wrong.show()
            sys.exit(wrong.exit_code)
        except click.Abort:
            tell_error("nothing was done", EXIT_ABORTED, as_json=as_json)
            sys.exit(EXIT_ABORTED)
        sys.exit(code if isinstance(code, int) else 0)
