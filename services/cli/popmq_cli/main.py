"""The entry point `popmq`; commands are loaded when they are used, so help comes at once."""

import importlib
import sys

try:
    import click
    from click.shell_completion import CompletionItem
except ModuleNotFoundError:
    print(
        "popmq: the command line needs the server extra: pip install 'popmq[server]'",
        file=sys.stderr,
    )
    sys.exit(1)

COMMANDS = {
    "standalone": ("run_standalone", "run_standalone", "Run a whole PopMQ in this process."),
    "quickstart": ("quickstart", "run_quickstart", "Send, receive and ack one message."),
    "topic": ("topics", "topic", "Make, list, show and delete topics."),
    "permission": ("permission", "permission", "What clients may do at a broker."),
    "group": ("groups", "group", "Make, change, list, show and delete consumer groups."),
    "dlq": ("dead_letters", "dlq", "List, show and send again what a group gave up."),
    "transaction": ("transactions", "transaction", "List and settle open transactions."),
    "message": ("find", "message", "Find messages by key, show them by id or by place."),
    "explain": ("explain", "explain", "What happened to a message, and why it is not received."),
    "cluster": ("cluster", "cluster", "Show nameservers, brokers and proxies, and what is wrong."),
    "top": ("top", "top", "Watch groups, topics and brokers; q leaves."),
    "doctor": ("doctor", "doctor", "Find the usual mistakes: endpoint, clock, disk, stuck groups."),
    "bench": ("bench", "bench", "Send and receive some messages, and show how fast it was."),
    "send": ("messages", "send", "Send a message."),
    "recall": ("messages", "recall", "Take a delayed message back."),
    "receive": ("messages", "receive", "Receive messages for a consumer group."),
    "tail": ("messages", "tail", "Print messages as they arrive."),
    "run": ("run", "run", "Run the handlers of an app, MODULE:APP."),
    "export": ("export", "export", "Write, list and verify snapshots for the audit."),
    "store": ("store", "store", "Check, show, copy and repair a broker's files."),
    "nameserver": ("run_nameserver", "run_nameserver", "Run a nameserver."),
    "broker": ("run_broker", "run_broker", "Run a broker."),
    "proxy": ("run_proxy", "run_proxy", "Run a proxy."),
    "health": ("health", "health", "Is a service well? For health checks."),
    "completion": ("completion", "completion", "Print the completion script of a shell."),
}


SECTIONS = {
    "Servers": ["standalone", "quickstart", "nameserver", "broker", "proxy", "health"],
    "Messages": ["send", "receive", "tail", "recall", "message", "run"],
    "Operation": [
        "cluster",
        "top",
        "topic",
        "group",
        "dlq",
        "transaction",
        "permission",
        "export",
        "store",
    ],
    "When something is wrong": ["explain", "doctor", "bench"],
    "The shell": ["completion"],
}
"""How the help shows them; each command is in one."""


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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without loading the commands for their help."""
        names = [
            CompletionItem(name, help=text)
            for name, (_, _, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][2]) for name in names])


@click.group(cls=LazyGroup)
@click.version_option(package_name="popmq")
def main() -> None:
    """PopMQ: a message queue that any RocketMQ 5 client talks to."""
