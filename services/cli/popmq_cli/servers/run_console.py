"""popmq console: the web console, beside a proxy anywhere."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import click

from popmq_cli.servers.console_options import CONSOLE_PORT, INSTALL, is_installed
from popmq_cli.servers.listening_options import HOST, LOG_LEVEL
from popmq_cli.servers.serving import run
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.connection import endpoints
from popmq_cli.shell.output import document, fail
from popmq_cli.shell.parameters import PORT
from popmq_cli.shell.server_options import SERVER_OPTIONS, server_of
from popmq_common.process.clock import SystemClock


@click.command("console", cls=Command)
@HOST
@click.option(
    "--port",
    type=PORT,
    default=CONSOLE_PORT,
    show_default=True,
    help="Port to listen on; 0: any free one.",
)
@click.option(
    "--path-prefix",
    default="",
    metavar="PATH",
    help="Serve everything below this path, like /queue, for a reverse proxy that passes it on.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A host name that browsers may use, beside IP addresses and localhost. Repeatable.",
)
@click.option(
    "--secure-cookie",
    is_flag=True,
    help="Browsers send the cookie over HTTPS alone; for a reverse proxy with HTTPS.",
)
@click.option(
    "--mask-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Parts of bodies and properties that nobody sees here, by topic; a TOML file.",
)
@click.option(
    "--descriptors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Descriptor set of Protobuf types: protoc --include_imports --descriptor_set_out=FILE.",
)
@click.option(
    "--topic-type",
    "topic_types",
    multiple=True,
    metavar="TOPIC=TYPE",
    help="Show bodies of these topics as this type: orders-*=shop.Order. Repeatable.",
)
@click.option(
    "--audit-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Show the reports that audits have left there.",
)
@click.option("--read-only", is_flag=True, help="Nothing can be changed, by nobody.")
@LOG_LEVEL
@json_option
def run_console(
    host: str,
    port: int,
    path_prefix: str,
    allowed_hosts: tuple[str, ...],
    secure_cookie: bool,
    mask_file: Path | None,
    descriptors: Path | None,
    topic_types: tuple[str, ...],
    audit_dir: Path | None,
    read_only: bool,
    log_level: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """Serve the web console of the cluster at --endpoint.

    If the cluster wants to know who asks, visitors log in as its users, and may do what those may
    do; --user and --secret-key-file do not count here. It speaks HTTP: put a reverse proxy with
    HTTPS before it if others than this machine reach it.
    """
    if not is_installed():
        fail(INSTALL)
    from popmq_console.app import Serving, console
    from popmq_console.config import ConsoleConfig

    server, tls = server_of(), endpoints(endpoint).tls
    try:
        config = ConsoleConfig(
            endpoint=endpoint,
            endpoint_from=_named_by(server.context),
            tls=tls,
            admin_secret=server.admin_secret,
            host=host,
            port=port,
            path_prefix=path_prefix,
            read_only=read_only,
            masks=_masks(mask_file),
            protobuf=_types(descriptors, topic_types),
            audit_dir=audit_dir,
            allowed_hosts=allowed_hosts,
            secure_cookie=secure_cookie,
        )
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--path-prefix") from wrong

    def start() -> AbstractAsyncContextManager[object]:
        return console(config, SystemClock())

    def ready(serving: object) -> None:
        assert isinstance(serving, Serving)
        if as_json:
            document({"url": serving.url, "endpoint": endpoint})
            return
        click.echo(f"PopMQ console: {serving.url}")
        click.echo(f"  cluster    {endpoint}")
        if read_only:
            click.echo("  read-only  nothing can be changed here")

    run(start, log_level, ready)


def _masks(file: Path | None) -> Any:
    from popmq_console.config import Masks, WrongMaskFile, read_masks

    try:
        return Masks() if file is None else read_masks(file)
    except (WrongMaskFile, OSError) as wrong:
        fail(str(wrong))


def _types(file: Path | None, topic_types: tuple[str, ...]) -> Any:
    from popmq_console.config import ProtobufTypes, WrongTypes, read_protobuf_types

    if bool(topic_types) != (file is not None):
        raise click.UsageError("--descriptors and --topic-type belong together")
    try:
        return ProtobufTypes() if file is None else read_protobuf_types(file, topic_types)
    except (WrongTypes, OSError) as wrong:
        fail(str(wrong))


def _named_by(context: str) -> str:
    """Who said which endpoint."""
    source = click.get_current_context().get_parameter_source("endpoint")
    named = source.name.lower().replace("_", " ") if source is not None else "default"
    if context and named.startswith("default"):
        return f"context {context}"
    return {"commandline": "--endpoint", "environment": "POPMQ_ENDPOINT"}.get(named, "the default")


for _option in reversed(SERVER_OPTIONS):
    run_console = _option(run_console)
