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

from popmq_cli.shell.commands import Root

COMMANDS = {
    "standalone": (
        "servers.run_standalone",
        "run_standalone",
        "Run nameserver, broker and proxy in one.",
    ),
    "console": ("servers.run_console", "run_console", "Serve the web console of a cluster."),
    "demo": ("demo.run_demo", "run_demo", "Try the console: a small shop that runs and fails."),
    "quickstart": (
        "servers.quickstart",
        "run_quickstart",
        "Try it: send, receive and ack one message.",
    ),
    "topic": ("catalog.topics", "topic", "Create, change, spread, list, show and delete topics."),
    "permission": (
        "catalog.permission",
        "permission",
        "Make a broker read-only for clients, or undo it.",
    ),
    "group": ("catalog.groups", "group", "Create, change, list, show and delete consumer groups."),
    "user": ("access.users", "user", "Create, change, list and delete users; replace secrets."),
    "acl": ("access.acls", "acl", "Say what users may do; import RocketMQ's files."),
    "limit": ("access.limits", "limit", "Limit what users, topics and clients send."),
    "dlq": ("messages.dead_letters", "dlq", "List, show, redrive and purge dead letters."),
    "transaction": (
        "messages.transactions",
        "transaction",
        "List open transactions and settle them.",
    ),
    "message": ("messages.find", "message", "Look at stored messages without receiving them."),
    "explain": ("messages.explain", "explain", "Tell why a message is or is not received."),
    "cluster": (
        "cluster.cluster",
        "cluster",
        "Show the state of the cluster; accept a replaced broker.",
    ),
    "top": ("cluster.top", "top", "Watch groups, topics and brokers."),
    "doctor": ("doctor.doctor", "doctor", "Find common mistakes, and say what to do about each."),
    "bench": ("messages.bench", "bench", "Measure how fast this server is from here."),
    "send": ("messages.messages", "send", "Send a message."),
    "recall": ("messages.messages", "recall", "Take back a delayed message."),
    "receive": ("messages.messages", "receive", "Receive messages for a consumer group."),
    "tail": ("messages.messages", "tail", "Print messages as they arrive."),
    "run": ("messages.run", "run", "Run the handlers of an app, MODULE:APP."),
    "export": ("store.export", "export", "Write, list and verify snapshots for the audit."),
    "store": ("store.store", "store", "Check, show, copy and repair a broker's files."),
    "nameserver": ("servers.run_nameserver", "run_nameserver", "Run a nameserver."),
    "broker": ("servers.run_broker", "run_broker", "Run a broker."),
    "proxy": ("servers.run_proxy", "run_proxy", "Run a proxy."),
    "health": ("cluster.health", "health", "Check whether a service is healthy."),
    "context": ("shell.contexts", "context", "Save servers under names, and choose one."),
    "tls": ("tls.tls", "tls", "Make the certificates that a cluster needs for TLS."),
    "completion": ("shell.completion", "completion", "Print the completion script of a shell."),
}
"""Module, attribute, and what the help says."""
SECTIONS = {
    "Servers": [
        "standalone",
        "quickstart",
        "demo",
        "console",
        "nameserver",
        "broker",
        "proxy",
        "health",
    ],
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
    "Access": ["user", "acl", "limit", "tls"],
    "Troubleshooting": ["explain", "doctor", "bench"],
    "Shell": ["context", "completion"],
}
"""How the help shows them; each command is in one."""


class LazyGroup(Root):
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
    """PopMQ: a message queue that any RocketMQ 5 client can talk to.

    Commands that talk to a server take --endpoint, or the environment variable POPMQ_ENDPOINT, or
    connect as the current context says; the default is 127.0.0.1:8081.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server answers.
    """
