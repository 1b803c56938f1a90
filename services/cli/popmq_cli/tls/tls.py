"""popmq tls: certificates for a cluster's TLS."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from popmq_cli.shell.commands import Command, CommandGroup, json_option
from popmq_cli.shell.output import document, fail
from popmq_cli.shell.parameters import Number
from popmq_cli.tls import folder as files

if TYPE_CHECKING:
    from popmq_cli.tls.authority import Authority, CertificateFacts, KeyPair

DAYS: Final = 825
LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_HOST: Final = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?|[0-9a-fA-F:]+")
_USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def _text(context: click.Context, param: click.Parameter, path: Path) -> Path:
    """It is printed. Raises `click.BadParameter` for bytes that are no text."""
    try:
        str(path).encode()
    except UnicodeEncodeError as wrong:
        raise click.BadParameter("its name is not UTF-8", context, param) from wrong
    return path.absolute()


_FOLDER: Final = click.argument(
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_text,
)
_DAYS: Final = click.option(
    "--days",
    type=Number(1, 3650),
    default=DAYS,
    show_default=True,
    help="How long the certificates are valid.",
)


@click.group(cls=CommandGroup)
def tls() -> None:
    """Make the certificates that a cluster needs for TLS."""


@tls.command(cls=Command)
@_FOLDER
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME,…",
    help="Names and addresses of the servers, as others connect to them. Repeatable.",
)
@_DAYS
@json_option
def init(folder: Path, hosts: tuple[str, ...], days: int, as_json: bool) -> None:
    """Make two authorities and the certificates that they sign.

    The files are written to DIR. ca.pem signs the certificates of nameserver, broker and proxy,
    which all contain the same host names. clients-ca.pem signs those of clients; the first one is
    for the operator. Existing files are not overwritten.
    """
    authority = _library()
    named = _hosts(hosts)
    written: dict[str, bytes] = {}
    authorities = {}
    for name, text in files.AUTHORITIES.items():
        pair = authority.new_authority(text)
        authorities[name] = authority.Authority(pair)
        written |= _named(name, pair)
    for service in files.SERVICES:
        leaf = authority.Leaf(f"popmq-{service}", named, serves=True)
        written |= _named(service, authorities[files.CA].sign(leaf, days))
    operator = authorities[files.CLIENTS_CA].sign(authority.Leaf(files.OPERATOR), days)
    written |= _named(files.OPERATOR, operator)
    _write(folder, written)
    (first,) = authority.shown(operator.certificate)
    _tell_made(folder, named, first.not_after, as_json)


@tls.command(cls=Command)
@_FOLDER
@click.argument("name")
@_DAYS
@json_option
def client(folder: Path, name: str, days: int, as_json: bool) -> None:
    """Make the certificate of a client.

    DIR is the one that you gave to popmq tls init. NAME becomes the user of the client's
    connections.
    """
    if not _USER.fullmatch(name):
        raise click.BadParameter(
            f"{name!r}: letters, digits and . _ @ -, at most 64", param_hint="NAME"
        )
    library = _library()
    pair = _authority(folder, files.CLIENTS_CA).sign(library.Leaf(name), days)
    _write(folder, _named(name, pair))
    (made,) = library.shown(pair.certificate)
    if as_json:
        document({"user": name, **_paths(folder, name), "validUntil": _moment(made.not_after)})
        return
    click.echo(f"Made {folder / name}.pem and {folder / name}.key for user {name},")
    click.echo(f"valid until {made.not_after:%Y-%m-%d}. The client also needs {folder}/ca.pem:")
    click.echo("  Tls.from_files(ca='ca.pem', " + f"certificate='{name}.pem', key='{name}.key')")


@tls.command(cls=Command)
@_FOLDER
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME,…",
    help="New names and addresses of the servers, instead of the old ones. Repeatable.",
)
@_DAYS
@json_option
def renew(
    folder: Path, names: tuple[str, ...], hosts: tuple[str, ...], days: int, as_json: bool
) -> None:
    """Make certificates again, with new keys, for the same names.

    NAME is a service, such as proxy, or a user. Without a NAME the command renews nameserver,
    broker, proxy and operator. The authorities stay the same. Copy the files to the servers: they
    use new files after 10 seconds at most.
    """
    named = _hosts(hosts) if hosts else None
    renewed = {
        name: _renewed(folder, name, named, days)
        for name in names or (*files.SERVICES, files.OPERATOR)
    }
    for name, pair in renewed.items():
        files.replace(folder, _named(name, pair))
    if as_json:
        document({"renewed": sorted(renewed), "directory": str(folder)})
        return
    for name in renewed:
        click.echo(f"Renewed {folder / name}.pem and {folder / name}.key")


@tls.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), callback=_text)
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show the certificates in FILE.

    For each: its names, who signed it, and how long it is valid.
    """
    try:
        found = _library().shown(_read(file))
    except ValueError:
        fail(f"{file} holds no certificate in PEM")
    if as_json:
        document([_as_json(one) for one in found])
        return
    for number, one in enumerate(found):
        if number:
            click.echo()
        _show(one)


def _renewed(folder: Path, name: str, hosts: tuple[str, ...] | None, days: int) -> "KeyPair":
    if name in files.AUTHORITIES or not _USER.fullmatch(name):
        raise click.BadParameter(f"{name!r} is no service and no user", param_hint="NAME")
    try:
        leaf = _library().leaf_of(_read(folder / f"{name}.pem"))
    except ValueError as wrong:
        fail(f"{folder / name}.pem cannot be renewed: {wrong}")
    if not leaf.serves:
        return _authority(folder, files.CLIENTS_CA).sign(leaf, days)
    return _authority(folder, files.CA).sign(leaf._replace(hosts=hosts or leaf.hosts), days)


def _library() -> Any:
    """`popmq_cli.tls.authority`, which needs more than the server does."""
    try:
        from popmq_cli.tls import authority
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'popmq[server,tls]'")
    return authority


def _hosts(texts: tuple[str, ...]) -> tuple[str, ...]:
    """With this machine's own names. Raises `click.BadParameter`."""
    found = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    for host in found:
        if not _HOST.fullmatch(host):
            raise click.BadParameter(
                f"{host!r} is neither a host's name nor an address", param_hint="--host"
            )
    return tuple(dict.fromkeys([*found, *LOCAL]))


def _named(name: str, pair: "KeyPair") -> dict[str, bytes]:
    """The key first: a server that looks in between finds a pair that does not fit, and waits."""
    return {f"{name}.key": pair.key, f"{name}.pem": pair.certificate}


def _paths(folder: Path, name: str) -> dict[str, str]:
    return {"certificate": str(folder / f"{name}.pem"), "key": str(folder / f"{name}.key")}


def _write(folder: Path, written: dict[str, bytes]) -> None:
    try:
        files.write_new(folder, written)
    except OSError as wrong:
        fail(str(wrong))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as wrong:
        fail(f"{path} cannot be read: {wrong.strerror}")


def _authority(folder: Path, name: str) -> "Authority":
    library = _library()
    pair = library.KeyPair(_read(folder / f"{name}.pem"), _read(folder / f"{name}.key"))
    try:
        found: Authority = library.Authority(pair)
    except ValueError as wrong:
        fail(f"{folder / name}.pem is no authority of popmq tls init: {wrong}")
    return found


def _tell_made(folder: Path, hosts: tuple[str, ...], ends: datetime, as_json: bool) -> None:
    parts = files.parts(folder)
    if as_json:
        services = {
            name: {"files": part.files, "environment": part.environment}
            for name, part in parts.items()
        }
        document(
            {
                "directory": str(folder),
                "hosts": hosts,
                "validUntil": _moment(ends),
                "services": services,
                "operator": _paths(folder, files.OPERATOR),
            }
        )
        return
    click.echo(f"Made two authorities and four certificates in {folder}, for {', '.join(hosts)},")
    click.echo(f"valid until {ends:%Y-%m-%d}.")
    for name, part in parts.items():
        click.echo(f"\nEach {name} gets {', '.join(part.files)}, and these settings:")
        for variable, value in part.environment.items():
            click.echo(f"  {variable}={value}")
    click.echo("\nClients get ca.pem, and a certificate of their own: popmq tls client DIR NAME.")
    click.echo("With POPMQ_PROXY_TLS_CLIENT_AUTH=optional they may also do without one.")
    click.echo("\nKeep ca.key and clients-ca.key here, or offline; no server needs them.")
    click.echo("Each other key belongs to the user that its service runs as, with mode 0600.")


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _as_json(one: "CertificateFacts") -> dict[str, Any]:
    return {
        "subject": one.subject,
        "issuer": one.issuer,
        "names": one.names,
        "uses": one.uses,
        "isAuthority": one.is_authority,
        "validFrom": _moment(one.not_before),
        "validUntil": _moment(one.not_after),
        "daysLeft": _days_left(one),
    }


def _show(one: "CertificateFacts") -> None:
    left = _days_left(one)
    expiry = f"{one.not_after:%Y-%m-%d %H:%M} UTC"
    rows = {
        "subject": one.subject,
        "issuer": one.issuer,
        "names": ", ".join(one.names) or "none",
        "use": "authority" if one.is_authority else ", ".join(one.uses) or "any",
        "valid from": f"{one.not_before:%Y-%m-%d %H:%M} UTC",
        "expires": f"{expiry}, in {left} days" if left >= 0 else f"{expiry}: it has expired",
    }
    for title, text in rows.items():
        click.echo(f"{title:<11} {text}")


def _days_left(one: "CertificateFacts") -> int:
    return (one.not_after - datetime.now(UTC)).days
