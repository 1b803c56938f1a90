"""Handshakes: with a context whose files are followed, and with a word about those that fail."""

import ssl
from collections.abc import Callable
from typing import Any, Final

from popmq_common.tls.followed import FollowedFiles

Refused = Callable[[str], None]
"""Gets the reason of a handshake that failed."""
CERTIFICATE_WANTED: Final = ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE")
"""What a client reads whose server asks for a certificate that it has not shown: 1.3, and 1.2."""


class FollowingContext(ssl.SSLContext):
    """Looks like a context; each connection gets the one that its files make now."""

    def __new__(
        cls, followed: FollowedFiles[ssl.SSLContext], refused: Refused | None = None
    ) -> "FollowingContext":
        return super().__new__(cls, followed.current().protocol)

    def __init__(
        self, followed: FollowedFiles[ssl.SSLContext], refused: Refused | None = None
    ) -> None:
        self._followed = followed
        self._refused = refused

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        context = self._followed.current()
        context.sslobject_class = ReportedHandshake
        made: Any = context.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        made.refused = self._refused
        found: ssl.SSLObject = made
        return found


class ReportedHandshake(ssl.SSLObject):
    refused: Refused | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failed:
            if self.refused is not None:
                self.refused(failure_text(failed))
            raise


def failure_text(failed: ssl.SSLError) -> str:
    """Without the line of C that found it."""
    if isinstance(failed, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {failed.verify_message}"
    if failed.reason in CERTIFICATE_WANTED:
        return "the other end asks for a certificate, and accepts none that was shown"
    return (failed.reason or str(failed)).replace("_", " ").lower()
