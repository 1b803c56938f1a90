"""Which files a service's configuration names, for what more than one kind of service has.

What one kind alone has, a nameserver's port and a proxy's clients, is read there.
"""

from pathlib import Path
from typing import Literal, Protocol

from popmq_common.tls.files import TlsFiles

Service = Literal["BROKER", "NAMESERVER", "PROXY"]
"""The word after POPMQ_ in the names of its variables."""


class LinkSettings(Protocol):
    """Of both ends of the link."""

    @property
    def link_tls_cert(self) -> Path | None: ...
    @property
    def link_tls_key(self) -> Path | None: ...


class NameserverSettings(LinkSettings, Protocol):
    """Of those who ask nameservers; they show the certificate of the link."""

    @property
    def nameserver_tls_ca(self) -> Path | None: ...


class MetricsSettings(Protocol):
    """Of every service."""

    @property
    def metrics_tls_cert(self) -> Path | None: ...
    @property
    def metrics_tls_key(self) -> Path | None: ...
    @property
    def metrics_tls_client_ca(self) -> Path | None: ...


def link_files(config: LinkSettings, service: Service, authority: Path | None) -> TlsFiles:
    """`authority`: who must have signed the other end's certificate."""
    return TlsFiles(
        setting=f"POPMQ_{service}_LINK_TLS",
        certificate=config.link_tls_cert,
        key=config.link_tls_key,
        authority=authority,
    )


def nameserver_files(config: NameserverSettings, service: Service) -> TlsFiles | None:
    """None: nameservers are asked without TLS."""
    if config.nameserver_tls_ca is None:
        return None
    return link_files(config, service, config.nameserver_tls_ca)


def metrics_files(config: MetricsSettings, service: Service) -> TlsFiles:
    return TlsFiles(
        setting=f"POPMQ_{service}_METRICS_TLS",
        certificate=config.metrics_tls_cert,
        key=config.metrics_tls_key,
        authority=config.metrics_tls_client_ca,
    )
