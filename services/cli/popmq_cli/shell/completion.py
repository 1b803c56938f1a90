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
    found = _asked(ctx, "ListTopics", admin.ListTopicsRequest())
    return [
        CompletionItem(one.name, help=one.message_type)
        for one in (found.topics if found else ())
        if one.name.startswith(begun)
    ]


def group_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Consumer groups whose names begin like that; none when no server answers."""
    found = _asked(ctx, "ListGroups", admin.ListGroupsRequest())
    names = [one.name for one in found.groups] if found else []
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def user_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Users whose names begin like that; none when no server answers, or it does not tell."""
    found = _asked(ctx, "ListUsers", admin.ListUsersRequest())
    names = [one.username for one in found.users] if found else []
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _asked(ctx: click.Context, rpc: str, request: Any) -> Any:
    """What the server lists; None when it does not answer, or cannot be asked."""
    try:
        with _channel(ctx) as asked:
            method = getattr(admin_grpc.AdminStub(asked), rpc)
            return method(request, timeout=ASK_S, metadata=server_of(ctx).headers())
    except (grpc.RpcError, click.UsageError):
        return None


def _channel(ctx: click.Context) -> Any:
    """As the words before say, the environment, or a context. Raises `click.UsageError`."""
    addresses, tls = endpoints(ctx.params.get("endpoint") or ENDPOINT_DEFAULT, ctx)
    return channel(grpc, addresses[0], tls)
