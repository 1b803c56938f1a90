"""TLS between services, and of pages of metrics: the end that listens, and the one that connects.

On the link the shared secret says who may call; this keeps the messages from whoever listens. With
authorities on both sides each end also checks the other's certificate.
"""

import ssl
from functools import partial

from popmq_common.process.logs import Log
from popmq_common.tls.contexts import ClientAuth, ServerPolicy, client_context, server_context
from popmq_common.tls.files import TlsFiles, needs_tls
from popmq_common.tls.followed import FollowedFiles
from popmq_common.tls.handshakes import FollowingContext


def listening_context(files: TlsFiles, log: Log, what: str) -> ssl.SSLContext | None:
    """Of a server; None without a certificate: no TLS. With an authority clients must show a
    certificate that it signed. `what` is served, for the log. Raises `ConfigError`."""
    if files.pair() is None:
        if files.authority is not None:
            raise needs_tls(files)
        return None
    auth = ClientAuth.NONE if files.authority is None else ClientAuth.REQUIRED
    make = partial(server_context, files, ServerPolicy(client_auth=auth))

    def refused(reason: str) -> None:
        log.warning("tls.refused", port=what, reason=reason)

    return FollowingContext(FollowedFiles(files.paths, make, log), refused)


def connecting_context(files: TlsFiles, log: Log) -> ssl.SSLContext | None:
    """Of a client; None without an authority: no TLS. Raises `ConfigError`."""
    if files.authority is None:
        return None
    return FollowingContext(FollowedFiles(files.paths, partial(client_context, files), log))
