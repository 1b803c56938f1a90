"""The folder of `popmq tls init`: which files are in it, for whom, and how they are written."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

KEY_MODE: Final = 0o600
CERTIFICATE_MODE: Final = 0o644
FOLDER_MODE: Final = 0o700
CA, CLIENTS_CA = "ca", "clients-ca"
AUTHORITIES: Final = {CA: "PopMQ servers", CLIENTS_CA: "PopMQ clients"}
"""Two, so that no client's certificate makes it a proxy or a broker."""
SERVICES: Final = ("nameserver", "broker", "proxy")
OPERATOR: Final = "operator"


class Part(NamedTuple):
    """What one kind of process gets."""

    files: tuple[str, ...]
    environment: dict[str, str]


def parts(folder: Path) -> dict[str, Part]:
    """Service → its files and variables, with the files where they are now."""

    def at(name: str) -> str:
        return str(folder.resolve() / name)

    nameserver = {
        "TLS_CERT": "nameserver.pem",
        "TLS_KEY": "nameserver.key",
        "TLS_CLIENT_CA": "ca.pem",
    }
    broker = {
        "LINK_TLS_CERT": "broker.pem",
        "LINK_TLS_KEY": "broker.key",
        "LINK_TLS_CLIENT_CA": "ca.pem",
        "NAMESERVER_TLS_CA": "ca.pem",
    }
    proxy = {
        "TLS_CERT": "proxy.pem",
        "TLS_KEY": "proxy.key",
        "TLS_CLIENT_CA": "clients-ca.pem",
        "LINK_TLS_CERT": "proxy.pem",
        "LINK_TLS_KEY": "proxy.key",
        "LINK_TLS_CA": "ca.pem",
        "NAMESERVER_TLS_CA": "ca.pem",
    }
    words = {"TLS_CLIENT_AUTH": "required", "TLS_ONLY": "true"}
    found = {}
    for service, files in zip(SERVICES, (nameserver, broker, proxy), strict=True):
        prefix = f"POPMQ_{service.upper()}_"
        environment = {prefix + name: at(file) for name, file in files.items()}
        if service == "proxy":
            environment |= {prefix + name: word for name, word in words.items()}
        found[service] = Part(tuple(dict.fromkeys(files.values())), environment)
    return found


def write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    """All of them or none. Raises `FileExistsError` when one is there, and `OSError`."""
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    for name in files:
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} is there already; nothing was written")
    for name, content in files.items():
        _write(folder / name, content, os.O_EXCL)


def replace(folder: Path, files: Mapping[str, bytes]) -> None:
    """Each at once, in their order: whoever reads meanwhile finds an old one or a new one, whole.
    Raises `OSError`."""
    for name, content in files.items():
        fresh = folder / f".{name}.new"
        fresh.unlink(missing_ok=True)
        _write(fresh, content, os.O_EXCL)
        old = folder / name
        if old.exists():  # a service's user may own it
            before = old.stat()
            if os.geteuid() == 0:
                os.chown(fresh, before.st_uid, before.st_gid)
        fresh.replace(old)


def _write(path: Path, content: bytes, flags: int) -> None:
    mode = KEY_MODE if ".key" in path.name else CERTIFICATE_MODE
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
