"""Where the server is and who asks: options of every client command, the environment, contexts."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from popmq import Credentials, Tls, UnusableSettings
from popmq._core.signature import Headers, SignedHeaders
from popmq.access import connect_settings as access
from popmq.access.connect_settings import AskedSettings, ConnectSettings
from popmq.access.contexts import CONTEXT_VARIABLE, DEFAULT, read_contexts
from popmq.access.credentials import ACCESS_KEY_VARIABLE, signed_headers
from popmq.app.launch import ENDPOINT_HELP, ENDPOINT_VARIABLE, TLS_CA_HELP, TLS_CA_VARIABLE
from popmq_cli.shell.commands import ServerOption

ENDPOINT_DEFAULT: Final = "127.0.0.1:8081"
SECRET_FILE_VARIABLE: Final = "POPMQ_ADMIN_SECRET_FILE"
_ASKED: Final = "popmq_cli.asked"
_SERVER: Final = "popmq_cli.server"
_SECRET: Final = "popmq_cli.admin_secret"
_TLS: Final = "popmq_cli.tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandServer:
    """What a command connects with."""

    tls: Tls | None = None
    """None: as the endpoint says."""
    credentials: Credentials | None = None
    signed: SignedHeaders | None = None
    """With the credentials."""
    context: str = ""
    admin_secret: str = ""

    @property
    def user(self) -> str:
        """Empty: none."""
        return "" if self.credentials is None else self.credentials.access_key

    def headers(self) -> Headers:
        """Of a call that is made now."""
        secret = (("x-popmq-admin-secret", self.admin_secret),) if self.admin_secret else ()
        signed = () if self.signed is None else self.signed.at(int(time.time()))
        return (*signed, *secret)


def server_of(context: click.Context | None = None) -> CommandServer:
    """Of the command that runs, or of `context`. Raises `click.UsageError`."""
    context = context or click.get_current_context(silent=True)
    if context is None:
        return CommandServer()
    found = context.meta.get(_SERVER)
    if found is None:
        found = context.meta[_SERVER] = _found(context.meta)
    assert isinstance(found, CommandServer)
    return found


def _found(meta: dict[str, Any]) -> CommandServer:
    try:
        settings = access.connect_settings(AskedSettings(**meta.get(_ASKED, {})))
    except UnusableSettings as wrong:
        raise click.UsageError(str(wrong)) from wrong
    return CommandServer(
        tls=_tls(settings, with_tls=meta.get(_TLS, False)),
        credentials=(credentials := settings.credentials),
        signed=None if credentials is None else signed_headers(credentials),
        context=settings.context,
        admin_secret=meta.get(_SECRET, ""),
    )


def _tls(settings: ConnectSettings, *, with_tls: bool) -> Tls | None:
    if not settings.has_tls_files:
        return Tls() if with_tls else None
    try:
        return Tls.from_files(**settings.tls_files())
    except OSError as wrong:
        raise click.UsageError(f"{wrong.filename} cannot be read: {wrong}") from wrong
    except ValueError as wrong:
        raise click.UsageError(f"--tls-cert and --tls-key: {wrong}") from wrong


def _endpoint(context: click.Context, option: click.Parameter, given: str) -> str:
    """If nobody has said one, that of the context."""
    source = context.get_parameter_source(option.name or "")
    asked = context.meta.setdefault(_ASKED, {})
    if source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
        asked["endpoint"] = given
        return given
    try:
        named = AskedSettings(context=asked.get("context", ""))
        return access.used_context(named, os.environ)[1].endpoint or given
    except UnusableSettings as wrong:
        raise click.UsageError(str(wrong)) from wrong


def _keep(context: click.Context, option: click.Parameter, given: object, *, name: str) -> None:
    if given is not None:
        context.meta.setdefault(_ASKED, {})[name] = str(given)


def _keep_tls(context: click.Context, option: click.Parameter, given: bool) -> None:
    context.meta[_TLS] = given


def _read_secret(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    try:
        context.meta[_SECRET] = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise click.BadParameter(f"{path} cannot be read: {wrong}") from wrong


def context_names(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Contexts whose names begin like that; none when their file cannot be used."""
    try:
        saved = read_contexts(os.environ).saved
    except UnusableSettings:
        return []
    found = [CompletionItem(name, help=one.endpoint) for name, one in saved.items()]
    found.append(CompletionItem(DEFAULT, help="no context"))
    return [item for item in found if item.value.startswith(begun)]


_FILE: Final = click.Path(path_type=Path, dir_okay=False)


def _kept(name: str, *words: str, variable: str | None = None, **more: Any) -> Callable[..., Any]:
    """An option that no command gets as an argument."""
    return click.option(
        *words,
        name,
        cls=ServerOption,
        envvar=variable,
        show_envvar=variable is not None,
        expose_value=False,
        callback=partial(_keep, name=name),
        **more,
    )


SERVER_OPTIONS: Final = [
    click.option(
        "--endpoint",
        cls=ServerOption,
        envvar=ENDPOINT_VARIABLE,
        show_envvar=True,
        default=ENDPOINT_DEFAULT,
        show_default=True,
        metavar="HOST:PORT",
        callback=_endpoint,
        help=ENDPOINT_HELP,
    ),
    _kept(
        "context",
        "--context",
        variable=CONTEXT_VARIABLE,
        metavar="NAME",
        is_eager=True,
        shell_complete=context_names,
        help=access.CONTEXT_HELP,
    ),
    _kept(
        "access_key",
        "--access-key",
        "--user",
        variable=ACCESS_KEY_VARIABLE,
        metavar="NAME",
        help=access.ACCESS_KEY_HELP,
    ),
    _kept("secret_key_file", "--secret-key-file", type=_FILE, help=access.SECRET_KEY_FILE_HELP),
    click.option(
        "--tls",
        cls=ServerOption,
        is_flag=True,
        expose_value=False,
        callback=_keep_tls,
        help="Connect with TLS.",
    ),
    _kept("tls_ca", "--tls-ca", variable=TLS_CA_VARIABLE, type=_FILE, help=TLS_CA_HELP),
    _kept(
        "tls_cert",
        "--tls-cert",
        variable=access.TLS_CERT_VARIABLE,
        type=_FILE,
        help=access.TLS_CERT_HELP,
    ),
    _kept(
        "tls_key",
        "--tls-key",
        variable=access.TLS_KEY_VARIABLE,
        type=_FILE,
        help=access.TLS_KEY_HELP,
    ),
    click.option(
        "--secret-file",
        cls=ServerOption,
        envvar=SECRET_FILE_VARIABLE,
        show_envvar=True,
        type=_FILE,
        expose_value=False,
        callback=_read_secret,
        help="File with the admin secret, if the server asks for one.",
    ),
]
