"""What `popmq run` is told, and what its processes end with."""

import sys
from dataclasses import dataclass
from typing import Final, NamedTuple

from popmq.access.connect_settings import AskedSettings, connect_settings
from popmq.access.credentials import Credentials
from popmq.connection.endpoints import Endpoints, Tls
from popmq.errors import UnusableSettings

FAILED: Final = 1
MISUSED: Final = 2
"""What the process ends with when there is nothing to run."""
SUPERVISED: Final = "POPMQ_SUPERVISED"
"""Set in processes whose parent's end they see by the end of their standard input."""


GIVEN_ON: Final = (
    "endpoint",
    "context",
    "access_key",
    "secret_key_file",
    "tls_ca",
    "tls_cert",
    "tls_key",
)
"""Options that the processes of an app get as they are; no secret is among them."""


class Misuse(Exception):
    """What was asked for cannot run."""


class Connect(NamedTuple):
    """Empty or None: as the app says."""

    endpoint: str
    tls: bool | Tls | None
    credentials: Credentials | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `popmq run` was asked for."""

    target: str
    endpoint: str = ""
    """Instead of the app's own; empty: that."""
    tls: bool = False
    """TLS, where the endpoint has no scheme."""
    tls_ca: str = ""
    """TLS, and certificates to trust: a PEM file."""
    tls_cert: str = ""
    """TLS, and the certificate that is shown: a PEM file."""
    tls_key: str = ""
    access_key: str = ""
    secret_key_file: str = ""
    context: str = ""
    """The current one is not used: the app says itself where it connects."""
    log_level: str = "info"
    workers: int = 1
    reload: bool = False

    def command(self) -> list[str]:
        """Of one process that serves it."""
        more = ["--tls"] if self.tls else []
        for name in GIVEN_ON:
            more += [f"--{name.replace('_', '-')}", given] if (given := getattr(self, name)) else []
        module = [sys.executable, "-m", "popmq.app.launch", "run"]
        return [*module, self.target, *more, "--log-level", self.log_level]

    def connection(self) -> Connect:
        """How the app connects. Raises `Misuse`."""
        asked = AskedSettings(**{name: getattr(self, name) for name in GIVEN_ON})
        try:
            found = connect_settings(asked, with_current=False)
            tls: bool | Tls | None = self.tls or None
            if found.has_tls_files:
                tls = Tls.from_files(**found.tls_files())
            if found.endpoint:
                Endpoints.of(found.endpoint, tls)
        except OSError as wrong:
            raise Misuse(f"{wrong.filename} cannot be read: {wrong}") from wrong
        except (ValueError, UnusableSettings) as wrong:
            raise Misuse(str(wrong)) from wrong
        return Connect(found.endpoint, tls, found.credentials)
