"""Completion in a shell: what to source for it, and the names of topics, groups and users."""

from typing import Any, Final

import click
import grpc
from click.shell_completion import CompletionItem, get_completion_class

from popmq.connection.endpoints import channel
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import endpoints
from popmq_cli.shell.server_options import ENDPOINT_DEFAULT, server_of

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

    It completes commands, options, the names of contexts, and the names of topics, groups and
    users, which it asks the server for.
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
            asked = admin.ListTopicsRequest()
            topics = stub.ListTopics(asked, timeout=ASK_S, metadata=_headers(ctx)).topics
    except (grpc.RpcError, click.UsageError):
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
            asked = admin.ListGroupsRequest()
            groups = stub.ListGroups(asked, timeout=ASK_S, metadata=_headers(ctx)).groups
    except (grpc.RpcError, click.UsageError):
        return []
    return [CompletionItem(one.name) for one in groups if one.name.startswith(begun)]


def _headers(ctx: click.Context) -> Any:
    return server_of(ctx).headers()


def user_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Users whose names begin like that; none when no server answers, or it does not tell."""
    try:
        with _channel(ctx) as asked:
            stub = admin_grpc.AdminStub(asked)
            request = admin.ListUsersRequest()
            users = stub.ListUsers(request, timeout=ASK_S, metadata=_headers(ctx)).users
    except (grpc.RpcError, click.BadParameter):
        return []
    return [CompletionItem(one.username) for one in users if one.username.startswith(begun)]


def _channel(ctx: click.Context) -> Any:
    """As the words before say, the environment, or a context. Raises `click.UsageError`."""
    addresses, tls = endpoints(ctx.params.get("endpoint") or ENDPOINT_DEFAULT, ctx)
    return channel(grpc, addresses[0], tls)
