"""Completion in a shell: what to source for it, and the names of topics and groups."""

from typing import Final

import click
import grpc
from click.shell_completion import CompletionItem, get_completion_class

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

ASK_S: Final = 1.0
"""Somebody waits with a finger on the key."""
ENDPOINT: Final = "127.0.0.1:8081"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL: commands, options, topics and groups.

    \b
    bash, in ~/.bashrc:   eval "$(popmq completion bash)"
    zsh, in ~/.zshrc:     eval "$(popmq completion zsh)"
    fish:                 popmq completion fish > ~/.config/fish/completions/popmq.fish

    Names of topics and groups come from the server of --endpoint or POPMQ_ENDPOINT.
    """
    script = get_completion_class(shell)
    assert script is not None
    root = ctx.find_root().command
    click.echo(script(root, {}, "popmq", "_POPMQ_COMPLETE").source())


def topic_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Topics whose names begin like that; none when no server answers."""
    try:
        with grpc.insecure_channel(_endpoint(ctx)) as channel:
            stub = admin_grpc.AdminStub(channel)
            topics = stub.ListTopics(admin.ListTopicsRequest(), timeout=ASK_S).topics
    except grpc.RpcError:
        return []
    return [
        CompletionItem(one.name, help=one.message_type)
        for one in topics
        if one.name.startswith(begun)
    ]


def group_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Consumer groups whose names begin like that; none when no server answers."""
    try:
        with grpc.insecure_channel(_endpoint(ctx)) as channel:
            stub = admin_grpc.AdminStub(channel)
            groups = stub.ListGroups(admin.ListGroupsRequest(), timeout=ASK_S).groups
    except grpc.RpcError:
        return []
    return [CompletionItem(one.name) for one in groups if one.name.startswith(begun)]


def _endpoint(ctx: click.Context) -> str:
    """As the words before say, or the environment."""
    return ctx.params.get("endpoint") or ENDPOINT
