"""A register from its URL, which says what keeps it:

file:///PATH     a folder of this machine
"""

from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from popmq_broker.clients.register.file_register import FileRegister
from popmq_broker.clients.register.register import Register, checked_name
from popmq_common.process.config import ConfigError

ALLOWED: Final = "file:///PATH"


def open_register(url: str, cluster: str, broker: str) -> Register:
    """The register of this broker's replicas. Raises `ConfigError`."""
    checked_name("cluster", cluster)
    checked_name("broker", broker)
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _file_register(url, parts, Path(cluster, broker))
    raise _illegal(url, f"the scheme {parts.scheme!r} is not known")


def _file_register(url: str, parts: SplitResult, group: Path) -> FileRegister:
    if parts.netloc or parts.query or parts.fragment or not parts.path.startswith("/"):
        raise _illegal(url, "a folder is three slashes and its whole path")
    folder = Path(parts.path) / group
    try:
        return FileRegister(folder)
    except OSError as wrong:
        raise ConfigError(f"the register's folder {folder} cannot be made: {wrong}") from wrong


def _illegal(url: str, reason: str) -> ConfigError:
    return ConfigError(f"the register's URL {url!r} is not valid: {reason}. Allowed: {ALLOWED}")
