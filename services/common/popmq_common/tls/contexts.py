"""Contexts of `ssl`, made of files. Each raises `ConfigError` for what cannot be used."""

import ssl
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

from popmq_common.process.config import ConfigError
from popmq_common.tls.files import TlsFiles, cannot_read, checked_pair, read_bytes


class ClientAuth(StrEnum):
    """Whether clients have to show a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


class TlsVersion(StrEnum):
    V1_2 = "1.2"
    V1_3 = "1.3"


_VERSIONS: Final = {
    TlsVersion.V1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.V1_3: ssl.TLSVersion.TLSv1_3,
}
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPolicy:
    """What a server asks of its clients' connections."""

    client_auth: ClientAuth = ClientAuth.NONE
    version_min: TlsVersion = TlsVersion.V1_2
    ciphers: str = ""
    """Of TLS 1.2, as OpenSSL writes them; empty: OpenSSL's own choice."""
    protocols: tuple[str, ...] = ()
    """Of ALPN."""


def server_context(files: TlsFiles, policy: ServerPolicy) -> ssl.SSLContext:
    """`files` have a certificate, and an authority if clients are asked for theirs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[policy.version_min]
    if policy.ciphers:
        try:
            context.set_ciphers(policy.ciphers)
        except ssl.SSLError as wrong:
            raise ConfigError(f"{files.setting}_CIPHERS={policy.ciphers!r}: {wrong}") from wrong
    if policy.protocols:
        context.set_alpn_protocols(list(policy.protocols))
    load_pair(context, files)
    if policy.client_auth is not ClientAuth.NONE:
        assert files.authority is not None
        load_authority(context, files.authority)
        context.verify_mode = _VERIFY[policy.client_auth]
        # A resumed session brings a certificate that was valid when the session began.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """The server's certificate must be signed by `files.authority` and name the host of its
    address; with a certificate in `files` it is shown to a server that asks."""
    assert files.authority is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_authority(context, files.authority)
    load_pair(context, files)
    return context


def load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    pair = checked_pair(files)
    if pair is None:
        return
    certificate, key = pair

    def no_password() -> NoReturn:
        raise ConfigError(
            f"the private key {key} is encrypted; decrypt it: openssl pkey -in {key} -out FILE"
        )

    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as wrong:
        raise ConfigError(_unfit(certificate, key, wrong)) from wrong
    except OSError as wrong:  # gone since it was looked at
        raise cannot_read(certificate, wrong) from wrong


def load_authority(context: ssl.SSLContext, authority: Path) -> None:
    read_bytes(authority)
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as wrong:
        raise ConfigError(f"the authority {authority} cannot be used: {_why(wrong)}") from wrong
    except OSError as wrong:  # gone since it was looked at
        raise cannot_read(authority, wrong) from wrong


def _unfit(certificate: Path, key: Path, wrong: ssl.SSLError) -> str:
    if wrong.reason == "KEY_VALUES_MISMATCH":
        return f"the private key {key} is not that of the certificate {certificate}"
    return f"the certificate {certificate} or its key {key} cannot be used: {_why(wrong)}"


def _why(wrong: ssl.SSLError) -> str:
    return (wrong.reason or str(wrong)).replace("_", " ").lower()
