"""The files that TLS needs, judged before they are used: what is wrong is said, and what to do."""

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from popmq_common.process.config import ConfigError
from popmq_common.tls.validity import Validity, validity_of

OTHERS: Final = 0o077
OTHERS_THAN_OUR_GROUP: Final = 0o037
"""Of a key that root owns and a service's group may read: so Kubernetes mounts a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of one end of a connection."""

    setting: str
    """How its variables begin: those of POPMQ_PROXY_TLS are POPMQ_PROXY_TLS_CERT and …_KEY."""
    certificate: Path | None = None
    """This end's chain."""
    key: Path | None = None
    authority: Path | None = None
    """Who must have signed the other end's certificate; None: it is not checked."""

    @property
    def paths(self) -> tuple[Path, ...]:
        files = (self.certificate, self.key, self.authority)
        return tuple(path for path in files if path is not None)

    def pair(self) -> tuple[Path, Path] | None:
        """Certificate and key. Raises `ConfigError` when one of them is missing."""
        if self.certificate is None and self.key is None:
            return None
        if self.certificate is None or self.key is None:
            raise ConfigError(f"{self.setting}_CERT and {self.setting}_KEY belong together")
        return self.certificate, self.key


def checked_pair(files: TlsFiles) -> tuple[Path, Path] | None:
    """The pair, of which the key is private and the certificate valid now. Raises `ConfigError`."""
    pair = files.pair()
    if pair is not None:
        certificate, key = pair
        check_private(key)
        check_valid(certificate, datetime.now(UTC))
    return pair


def check_private(key: Path, what: str = "the private key") -> None:
    """Raises `ConfigError` when others than its owner can read it."""
    try:
        found = key.stat()
    except OSError as wrong:
        raise cannot_read(key, wrong) from wrong
    if os.name != "posix":
        return
    mode = stat.S_IMODE(found.st_mode)
    of_root = _owner(found) == 0 and os.geteuid() != 0
    if mode & (OTHERS_THAN_OUR_GROUP if of_root else OTHERS):
        raise ConfigError(f"{what} {key} can be read by others (mode {mode:04o}): chmod 600 {key}")


def _owner(found: os.stat_result) -> int:
    return found.st_uid


def check_valid(certificate: Path, now: datetime) -> Validity:
    """Raises `ConfigError` for one that is expired, or not valid yet."""
    try:
        found = validity_of(read_text(certificate))
    except ValueError as wrong:
        raise ConfigError(f"the certificate {certificate} cannot be used: {wrong}") from wrong
    if now > found.not_after:
        raise ConfigError(
            f"the certificate {certificate} expired on {told(found.not_after)}: make a new one"
        )
    if now < found.not_before:
        raise ConfigError(
            f"the certificate {certificate} is valid from {told(found.not_before)} on: "
            "check this machine's clock"
        )
    return found


def read_text(path: Path) -> str:
    """Raises `ConfigError`."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: Path) -> bytes:
    """Raises `ConfigError`."""
    try:
        return path.read_bytes()
    except OSError as wrong:
        raise cannot_read(path, wrong) from wrong


def cannot_read(path: Path, wrong: OSError) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {wrong.strerror or wrong}")


def told(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def needs_tls(files: TlsFiles) -> ConfigError:
    """Of a server that has an authority, and no certificate of its own."""
    return ConfigError(
        f"{files.setting}_CLIENT_CA asks clients for certificates, which needs TLS: "
        f"set {files.setting}_CERT and {files.setting}_KEY too"
    )
