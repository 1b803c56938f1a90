"""A register from its URL, which says what keeps it:

file:///PATH                a folder of this machine
etcd://HOST:PORT,HOST:PORT  etcd's members, or some of them, in plaintext
etcds://HOST:PORT,HOST:PORT the same with TLS
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from popmq_broker.clients.register.etcd_calls import EtcdCalls, EtcdUser
from popmq_broker.clients.register.etcd_register import EtcdRegister
from popmq_broker.clients.register.file_register import FileRegister
from popmq_broker.clients.register.register import Register, checked_name
from popmq_common.process.config import ConfigError, check_port
from popmq_common.tls.files import TlsFiles, check_private

ALLOWED: Final = "file:///PATH, etcd://HOST:PORT,HOST:PORT or etcds://HOST:PORT,HOST:PORT"
ENDPOINTS_MAX: Final = 16
TLS_SETTING: Final = "POPMQ_BROKER_REGISTER_TLS"


def open_register(
    url: str,
    cluster: str,
    broker: str,
    *,
    user: str = "",
    password_file: Path | None = None,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
) -> Register:
    """The register of this broker's replicas. Call it in the event loop.

    `user` and `password_file`: of etcd. `ca`, `cert` and `key`, PEM: the authority of etcd's
    certificates, and what this broker shows to an etcd that asks for one. Raises `ConfigError`.
    """
    checked_name("cluster", cluster)
    checked_name("broker", broker)
    try:
        parts = urlsplit(url)
    except ValueError as wrong:
        raise _illegal(url, str(wrong)) from wrong
    tls = TlsFiles(setting=TLS_SETTING, certificate=cert, key=key, authority=ca)
    if parts.scheme in ("etcd", "etcds"):
        addresses = _addresses(url, parts)
        calls = EtcdCalls(addresses, _user(user, password_file), _tls(parts.scheme, tls))
        return EtcdRegister(calls, cluster, broker, url.rstrip("/"))
    if parts.scheme != "file":
        raise _illegal(url, f"the scheme {parts.scheme!r} is not known")
    if user or password_file or tls.paths:
        raise ConfigError(f"the register {url} takes no user and no certificates: only etcd does")
    return _file_register(url, parts, Path(cluster, broker))


def _file_register(url: str, parts: SplitResult, group: Path) -> FileRegister:
    if parts.netloc or parts.query or parts.fragment or not parts.path.startswith("/"):
        raise _illegal(url, "a folder is three slashes and its whole path")
    folder = Path(parts.path) / group
    try:
        return FileRegister(folder)
    except OSError as wrong:
        raise ConfigError(f"the register's folder {folder} cannot be made: {wrong}") from wrong


def _addresses(url: str, parts: SplitResult) -> Sequence[str]:
    if "@" in parts.netloc:
        raise _illegal("etcd://…", "a user does not belong there, but into its own setting")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise _illegal(url, "after the endpoints nothing follows")
    addresses = parts.netloc.split(",")
    if len(addresses) > ENDPOINTS_MAX or len(set(addresses)) < len(addresses):
        raise _illegal(url, f"endpoints are different ones, at most {ENDPOINTS_MAX}")
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            check_port(int(port))
        except ValueError as wrong:
            raise _illegal(url, f"{address!r} has no port") from wrong
        if not host:
            raise _illegal(url, f"{address!r} has no host")
    return addresses


def _user(name: str, password_file: Path | None) -> EtcdUser | None:
    if not name and password_file is None:
        return None
    if not name or password_file is None:
        raise ConfigError("the register's user and the file of its password belong together")
    check_private(password_file, "the register's password file")
    return EtcdUser(name=name, password_file=password_file)


def _tls(scheme: str, files: TlsFiles) -> TlsFiles | None:
    if scheme == "etcds":
        if files.authority is None:
            raise ConfigError(
                f"etcds:// needs the authority of etcd's certificates: {TLS_SETTING}_CA"
            )
        return files
    if files.paths:
        raise ConfigError("certificates are of no use with etcd://: write etcds://")
    return None


def _illegal(url: str, reason: str) -> ConfigError:
    return ConfigError(f"the register's URL {url!r} is not valid: {reason}. Allowed: {ALLOWED}")
