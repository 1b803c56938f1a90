"""Certificates for the TLS port: the operator's, or one made at start.

Official clients that use TLS by default do not check certificates unless told to, so a
self-signed one lets them in; whoever wants more than encryption configures their own.
"""

import secrets
import ssl
import tempfile
from datetime import UTC, datetime, timedelta

import grpc

from popmq_common.config import ConfigError
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core import self_signed as certificate

VALID_DAYS = 3650


def credentials(config: ProxyConfig) -> grpc.ServerCredentials | None:
    """None when no TLS port is asked for. Raises `ConfigError`."""
    if not config.tls_port:
        return None
    return grpc.ssl_server_credentials([key_and_certificate(config)])


def context(config: ProxyConfig) -> ssl.SSLContext:
    """For HTTP/2 over TLS. Raises `ConfigError`."""
    key, chain_pem = key_and_certificate(config)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile() as chain:  # ssl reads files only
        chain.write(key + b"\n" + chain_pem)
        chain.flush()
        try:
            made.load_cert_chain(chain.name)
        except (ssl.SSLError, ValueError) as wrong:
            raise ConfigError(f"the TLS certificate cannot be used: {wrong}") from wrong
    return made


def key_and_certificate(config: ProxyConfig) -> tuple[bytes, bytes]:
    """Both PEM. Raises `ConfigError`."""
    if (config.tls_cert is None) != (config.tls_key is None):
        raise ConfigError("POPMQ_PROXY_TLS_CERT and POPMQ_PROXY_TLS_KEY belong together")
    if config.tls_cert is None or config.tls_key is None:
        return self_signed()
    try:
        return config.tls_key.read_bytes(), config.tls_cert.read_bytes()
    except OSError as wrong:
        raise ConfigError(f"the TLS certificate cannot be read: {wrong}") from wrong


def self_signed() -> tuple[bytes, bytes]:
    """(key, certificate), both PEM."""
    now = datetime.now(UTC)
    begins, ends = now - timedelta(days=1), now + timedelta(days=VALID_DAYS)
    return certificate.self_signed("popmq", "localhost", begins, ends, secrets.randbelow)
