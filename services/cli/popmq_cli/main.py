"""The entry point `popmq`; commands are loaded when they are used, so help comes at once."""

import importlib
import sys

try:
    import click
except ModuleNotFoundError:
    print(
        "popmq: the command line needs the server extra: pip install 'popmq[server]'",
        file=sys.stderr,
    )
    sys.exit(1)

COMMANDS = {
    "standalone": ("services", "run_standalone", "Run a whole PopMQ in this process."),
    "quickstart": ("quickstart", "run_quickstart", "Send, receive and ack one message."),
    "topic": ("topics", "topic", "Make, list, show and delete topics."),
    "group": ("groups", "group", "Make, change, list, show and delete consumer groups."),
    "dlq": ("dead_letters", "dlq", "List, show and send again what a group gave up."),
    "transaction": ("transactions", "transaction", "List and settle open transactions."),
    "message": ("find", "message", "Find messages by key, show them by id or by place."),
    "send": ("messages", "send", "Send a message."),
    "recall": ("messages", "recall", "Take a delayed message back."),
    "receive": ("messages", "receive", "Receive messages for a consumer group."),
    "tail": ("messages", "tail", "Print messages as they arrive."),
    "run": ("run", "run", "Run the handlers of an app, MODULE:APP."),
    "store": ("store", "store", "Check, show and repair the files of a stopped broker."),
    "nameserver": ("services", "run_nameserver", "Run a nameserver."),
    "broker": ("services", "run_broker", "Run a broker."),
    "proxy": ("services", "run_proxy", "Run a proxy."),
    "health": ("health", "health", "Is a service well? For health checks."),
    "completion": ("completion", "completion", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        try:
            command = getattr(importlib.import_module(f"popmq_cli.{module}"), attribute)
        except ModuleNotFoundError as missing:
            raise click.ClickException(
                f"{missing.name} is not installed: pip install 'popmq[server]'"
            ) from missing
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(cls=LazyGroup)
@click.version_option(package_name="popmq")
def main() -> None:
    """PopMQ: a message queue that any RocketMQ 5 client talks to."""
