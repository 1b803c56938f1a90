"""What `popmq run` is told, and what its processes end with."""

import sys
from dataclasses import dataclass
from typing import Final

from popmq.connection.endpoints import Endpoints, Tls

FAILED: Final = 1
MISUSED: Final = 2
"""What the process ends with when there is nothing to run."""
SUPERVISED: Final = "POPMQ_SUPERVISED"
"""Set in processes whose parent's end they see by the end of their standard input."""


class Misuse(Exception):
    """What was asked for cannot run."""


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
    log_level: str = "info"
    workers: int = 1
    reload: bool = False

    def command(self) -> list[str]:
        """Of one process that serves it."""
        more = ["--endpoint", self.endpoint] if self.endpoint else []
        more += ["--tls"] if self.tls else []
        more += ["--tls-ca", self.tls_ca] if self.tls_ca else []
        module = [sys.executable, "-m", "popmq.app.launch", "run"]
        return [*module, self.target, *more, "--log-level", self.log_level]

    def connection(self) -> bool | Tls | None:
        """TLS or not; None: as the app says. Raises `Misuse`."""
        try:
            tls = Tls.from_files(ca=self.tls_ca) if self.tls_ca else self.tls or None
            if self.endpoint:
                Endpoints.of(self.endpoint, tls)
        except OSError as wrong:
            raise Misuse(f"{self.tls_ca} cannot be read: {wrong}") from wrong
        except ValueError as wrong:
            raise Misuse(str(wrong)) from wrong
        return tls
