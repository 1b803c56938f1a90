"""Completion in a shell: what to source for it, and the names of topics, groups and users."""

from typing import Any, Final

import click
import grpc
from click.shell_completion import CompletionItem, get_completion_class

from popmq.connection.endpoints import channel
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import ENDPOINT_DEFAULT, endpoints

ASK_S: Final = 1.0
"""Somebody waits with a finger on the key."""


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash, in ~/.bashrc:   eval "$(popmq completion bash)"
    zsh, in ~/.zshrc:     eval "$(popmq completion zsh)"
    fish:   popmq completion fish > ~/.config/fish/completions/popmq.fish

    It completes commands, options, and the names of topics, groups and users, which it asks the
    server of --endpoint or POPMQ_ENDPOINT for.
    """
    script = get_completion_class(shell)
    assert script is not None
    root = ctx.find_root().command
    click.echo(script(root, {}, "popmq", "_POPMQ_COMPLETE").source())


def topic_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Topics whose names begin like that; none when no server answers."""
    try:
        with _channel(ctx) as asked:
            stub = admin_grpc.AdminStub(asked)
            topics = stub.ListTopics(admin.ListTopicsRequest(), timeout=ASK_S).topics
    except (grpc.RpcError, click.BadParameter):
        return []
    return [
        CompletionItem(one.name, help=one.message_type)
        for one in topics
        if one.name.startswith(begun)
    ]


def group_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Consumer groups whose names begin like that; none when no server answers."""
    try:
        with _channel(ctx) as asked:
            stub = admin_grpc.AdminStub(asked)
            groups = stub.ListGroups(admin.ListGroupsRequest(), timeout=ASK_S).groups
    except (grpc.RpcError, click.BadParameter):
        return []
    return [CompletionItem(one.name) for one in groups if one.name.startswith(begun)]


def user_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Users whose names begin like that; none when no server answers, or it does not tell."""
    try:
        with _channel(ctx) as asked:
            stub = admin_grpc.AdminStub(asked)
            users = stub.ListUsers(admin.ListUsersRequest(), timeout=ASK_S).users
    except (grpc.RpcError, click.BadParameter):
        return []
    return [CompletionItem(one.username) for one in users if one.username.startswith(begun)]


def _channel(ctx: click.Context) -> Any:
    """As the words before say, or the environment. Raises `click.BadParameter`."""
    addresses, tls = endpoints(ctx.params.get("endpoint") or ENDPOINT_DEFAULT, ctx)
    return channel(grpc, addresses[0], tls)
