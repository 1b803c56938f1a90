"""popmq context: names for servers and for who you are there."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from popmq import Credentials, UnusableSettings
from popmq.access.connect_settings import secret_key_of
from popmq.access.contexts import DEFAULT, Contexts, SavedContext, read_contexts
from popmq.access.credentials import SECRET_KEY_VARIABLE
from popmq.connection.endpoints import Endpoints
from popmq_cli.shell.commands import CommandGroup, json_option
from popmq_cli.shell.output import confirm, document, fail, note, table
from popmq_cli.shell.server_options import context_names

_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True, resolve_path=True)
_NAME: Final = click.argument("name", metavar="NAME", shell_complete=context_names)


@contextmanager
def _contexts(*, write: bool = False) -> Iterator[Contexts]:
    """What cannot be used is told in one line."""
    try:
        found = read_contexts(os.environ)
        yield found
        if write:
            found.write()
    except UnusableSettings as wrong:
        fail(str(wrong))


@click.group(cls=CommandGroup)
def context() -> None:
    """Save servers under names, and choose the one that commands connect to.

    A context has an endpoint and, if you like, a user with a secret key, and certificates. Options
    and environment variables override it. If you give an endpoint, the current context is not used.
    Contexts are stored in ~/.config/popmq, or in POPMQ_CONFIG_DIR, where only you can read them.
    """


@context.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--endpoint",
    required=True,
    metavar="HOST:PORT",
    help="The server, or several separated by ';'.",
)
@click.option(
    "--access-key", "--user", metavar="NAME", default="", help="The user that you are there."
)
@click.option(
    "--secret-key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"File with the user's secret key. Without it: {SECRET_KEY_VARIABLE}, or a prompt.",
)
@click.option("--tls-ca", type=_FILE, help="Authorities to trust, a PEM file.")
@click.option("--tls-cert", type=_FILE, help="The certificate to show, a PEM file.")
@click.option("--tls-key", type=_FILE, help="The key of that certificate, a PEM file.")
@click.option("--replace", is_flag=True, help="Replace the context of this name if it exists.")
@click.option("--use", "and_use", is_flag=True, help="Make it the current one.")
@json_option
def add(
    name: str,
    endpoint: str,
    access_key: str,
    secret_key_file: Path | None,
    replace: bool,
    and_use: bool,
    as_json: bool,
    **tls: Path | None,
) -> None:
    """Save a context with its secret key and certificate paths."""
    try:
        Endpoints.of(endpoint, True if tls["tls_ca"] else None)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--endpoint") from wrong
    if bool(tls["tls_cert"]) != bool(tls["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key are given together")
    with _contexts(write=True) as contexts:
        if name in contexts.saved and not replace:
            fail(f"there is a context {name!r} already; --replace replaces it")
        secret_key = _secret_key(access_key, secret_key_file)
        paths = {option: str(path or "") for option, path in tls.items()}
        saved = SavedContext(
            endpoint=endpoint, access_key=access_key, secret_key=secret_key, **paths
        )
        contexts.put(name, saved)
        if and_use:
            contexts.use(name)
    _tell(contexts, name, f"Context {name} is saved.", as_json=as_json)


def _secret_key(access_key: str, file: Path | None) -> str:
    """Raises `UnusableSettings`."""
    if not access_key:
        if file is not None:
            raise click.UsageError("--secret-key-file without --access-key says nothing")
        return ""
    secret_key = os.environ.get(SECRET_KEY_VARIABLE, "") if file is None else secret_key_of(file)
    if not secret_key:
        if not sys.stdin.isatty():
            raise click.UsageError(
                f"the secret key of {access_key!r} is missing: --secret-key-file FILE, "
                f"or {SECRET_KEY_VARIABLE}"
            )
        secret_key = click.prompt(f"Secret key of {access_key}", hide_input=True, err=True)
    return Credentials(access_key, secret_key).secret_key


@context.command()
@_NAME
@json_option
def use(name: str, as_json: bool) -> None:
    """Make a context the current one. The name default means no context."""
    with _contexts(write=True) as contexts:
        contexts.use(name)
    _tell(contexts, name, f"Commands connect as {name} says.", as_json=as_json)


@context.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List the contexts. The current one has a star."""
    with _contexts() as contexts:
        shown = [_shown(contexts, name) for name in sorted(contexts.saved)]
    if as_json:
        document({"current": contexts.current, "contexts": shown})
        return
    rows = [
        ("*" if one["current"] else "", one["name"], one["endpoint"], one["user"]) for one in shown
    ]
    table(["", "NAME", "ENDPOINT", "USER"], rows)


@context.command()
@click.argument("name", metavar="[NAME]", default="", shell_complete=context_names)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a context, by default the current one. Its secret key is never shown."""
    with _contexts() as contexts:
        name = name or contexts.current
        if name == DEFAULT:
            fail("there is no current context; popmq context use NAME chooses one")
        found = _shown(contexts, name)
    if as_json:
        document(found)
        return
    for field, value in found.items():
        text = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
        click.echo(f"{field:10} {text or '-'}")


@context.command()
@_NAME
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Remove a context, and the secret key that is saved with it."""
    with _contexts(write=True) as contexts:
        contexts.get(name)
        confirm(f"Remove the context {name}?", yes=yes)
        contexts.remove(name)
    if as_json:
        document({"removed": name, "current": contexts.current})
    else:
        note(f"Context {name} is removed.")


def _shown(contexts: Contexts, name: str) -> dict[str, Any]:
    saved = contexts.get(name)
    return {
        "name": name,
        "current": name == contexts.current,
        "endpoint": saved.endpoint,
        "user": saved.access_key,
        "secretKey": bool(saved.secret_key),
        "tlsCa": saved.tls_ca,
        "tlsCert": saved.tls_cert,
        "tlsKey": saved.tls_key,
    }


def _tell(contexts: Contexts, name: str, text: str, *, as_json: bool) -> None:
    if not as_json:
        note(text)
    elif name == DEFAULT:
        document({"current": DEFAULT})
    else:
        document(_shown(contexts, name))
