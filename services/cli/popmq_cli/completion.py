"""popmq completion: what to source for completion in a shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    bash: eval "$(popmq completion bash)"
    """
    script = get_completion_class(shell)
    assert script is not None
    root = ctx.find_root().command
    click.echo(script(root, {}, "popmq", "_POPMQ_COMPLETE").source())
