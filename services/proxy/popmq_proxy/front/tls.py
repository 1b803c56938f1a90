"""Certificates for the TLS port: the operator's, or one made at start.

Official clients that use TLS by default do not check certificates unless told to, so a
self-signed one lets them in; whoever wants more than encryption configures their own. New files
serve new connections without a restart.
"""

import ssl
import subprocess
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import grpc

from popmq_common.process.config import ConfigError
from popmq_common.process.logs import Log
from popmq_common.tls.contexts import ClientAuth, ServerPolicy, TlsVersion, server_context
from popmq_common.tls.files import TlsFiles, read_bytes
from popmq_common.tls.followed import FollowedFiles
from popmq_common.tls.grpc_tls import server_credentials
from popmq_common.tls.handshakes import FollowingContext
from popmq_proxy.config import ProxyConfig

VALID_DAYS: Final = 3650
OPENSSL_S_MAX: Final = 30.0
_REQUEST: Final = (
    *("openssl", "req", "-x509", "-nodes", "-days", str(VALID_DAYS)),
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "-", "-out", "-"),
    *("-subj", "/CN=popmq", "-addext", "subjectAltName=DNS:localhost"),
)
_END_OF_KEY: Final = b"-----END PRIVATE KEY-----\n"


def credentials(config: ProxyConfig, log: Log) -> grpc.ServerCredentials | None:
    """For grpcio; None when no TLS port is asked for. Raises `ConfigError`."""
    if not config.tls_port and not config.tls_only:
        return None
    if config.tls_min_version is not TlsVersion.V1_2 or config.tls_ciphers:
        raise ConfigError(
            "the front grpcio has versions and ciphers of its own: take "
            "POPMQ_PROXY_TLS_MIN_VERSION and POPMQ_PROXY_TLS_CIPHERS away, "
            "or set POPMQ_PROXY_FRONT=http2"
        )
    if config.tls_client_auth is ClientAuth.OPTIONAL:
        raise ConfigError(
            "the front grpcio asks all clients for a certificate or none: "
            "POPMQ_PROXY_TLS_CLIENT_AUTH=required, or POPMQ_PROXY_FRONT=http2"
        )
    files = client_files(config)
    if files.pair() is None:
        own = self_signed()
        asked = None if files.authority is None else read_bytes(files.authority)
        return grpc.ssl_server_credentials([own], asked, asked is not None)
    return server_credentials(files, log)


def context(config: ProxyConfig, log: Log) -> ssl.SSLContext:
    """For HTTP/2 over TLS. Raises `ConfigError`."""
    files = client_files(config)
    policy = ServerPolicy(
        client_auth=config.tls_client_auth,
        version_min=config.tls_min_version,
        ciphers=config.tls_ciphers,
        protocols=("h2",),
    )
    make = partial(server_context, files, policy)
    if files.pair() is None:
        make = partial(_with_own, self_signed(), files, policy)
    return FollowingContext(FollowedFiles(files.paths, make, log))


def client_files(config: ProxyConfig) -> TlsFiles:
    """Raises `ConfigError` for settings that contradict each other."""
    asks = config.tls_client_auth is not ClientAuth.NONE
    if asks and config.tls_client_ca is None:
        raise ConfigError(
            f"POPMQ_PROXY_TLS_CLIENT_AUTH={config.tls_client_auth} needs the authority that signs "
            "clients' certificates: set POPMQ_PROXY_TLS_CLIENT_CA"
        )
    if config.tls_client_ca is not None and not asks:
        raise ConfigError(
            "POPMQ_PROXY_TLS_CLIENT_CA is set, and no client is asked for a certificate: set "
            "POPMQ_PROXY_TLS_CLIENT_AUTH to required or optional"
        )
    return TlsFiles(
        setting="POPMQ_PROXY_TLS",
        certificate=config.tls_cert,
        key=config.tls_key,
        authority=config.tls_client_ca,
    )


def _with_own(own: tuple[bytes, bytes], files: TlsFiles, policy: ServerPolicy) -> ssl.SSLContext:
    """With the certificate that was made at start."""
    with tempfile.NamedTemporaryFile() as both:  # ssl reads files only
        both.write(b"\n".join(own))
        both.flush()
        path = Path(both.name)
        return server_context(replace(files, certificate=path, key=path), policy)


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
