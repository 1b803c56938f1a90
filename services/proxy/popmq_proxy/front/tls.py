"""Certificates for the TLS port: the operator's, or one made at start.

Official clients that use TLS by default do not check certificates unless told to, so a
self-signed one lets them in; whoever wants more than encryption configures their own.
"""

import ssl
import subprocess
import tempfile
from typing import Final

import grpc

from popmq_common.process.config import ConfigError
from popmq_proxy.config import ProxyConfig

VALID_DAYS: Final = 3650
OPENSSL_S_MAX: Final = 30.0
_REQUEST: Final = (
    *("openssl", "req", "-x509", "-nodes", "-days", str(VALID_DAYS)),
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "-", "-out", "-"),
    *("-subj", "/CN=popmq", "-addext", "subjectAltName=DNS:localhost"),
)
_END_OF_KEY: Final = b"-----END PRIVATE KEY-----\n"


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
    """(key, certificate), both PEM, of the command openssl. Raises `ConfigError`."""
    try:
        made = subprocess.run(_REQUEST, capture_output=True, timeout=OPENSSL_S_MAX, check=True)
    except FileNotFoundError:
        raise ConfigError(
            "there is no command openssl to make a certificate with: apt-get install openssl, "
            "or set POPMQ_PROXY_TLS_CERT and POPMQ_PROXY_TLS_KEY to files of your own"
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"openssl made no certificate within {OPENSSL_S_MAX:g} s") from None
    except subprocess.CalledProcessError as failed:
        said = failed.stderr.decode(errors="replace").strip()[-500:]
        raise ConfigError(f"openssl made no certificate: {said}") from None
    key, end, certificate = made.stdout.partition(_END_OF_KEY)
    return key + end, certificate
