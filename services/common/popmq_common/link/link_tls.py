"""TLS of the link between proxies and brokers: the broker shows a certificate, the proxy checks it.

The shared secret says who may call; this keeps it, and the messages, from whoever listens.
"""

import ssl
from pathlib import Path

from popmq_common.process.config import ConfigError


def broker_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """None: no TLS. Raises `ConfigError`."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ConfigError("the link's certificate and its private key belong together")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as wrong:
        raise ConfigError(f"link certificate {certificate} cannot be used: {wrong}") from wrong
    return context


def proxy_context(authority: Path | None) -> ssl.SSLContext | None:
    """None: no TLS. The broker's certificate must be signed by `authority` and name the host of its
    address. Raises `ConfigError`."""
    if authority is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as wrong:
        raise ConfigError(f"link authority {authority} cannot be used: {wrong}") from wrong
