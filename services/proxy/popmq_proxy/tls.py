"""Which files the proxy's own connections use: to brokers, to nameservers, and its page of metrics.

Those of clients are in front/tls.py.
"""

import ssl

from popmq_common.process.config import ConfigError
from popmq_common.process.logs import Log
from popmq_common.tls.files import TlsFiles
from popmq_common.tls.service_ends import connecting_context
from popmq_proxy.config import ProxyConfig

SETTING = "POPMQ_PROXY_LINK_TLS"


def broker_context(config: ProxyConfig, log: Log) -> ssl.SSLContext | None:
    """None: the link has no TLS. Raises `ConfigError`."""
    shows = config.link_tls_cert is not None or config.link_tls_key is not None
    if shows and config.link_tls_ca is None and config.nameserver_tls_ca is None:
        raise ConfigError(
            f"{SETTING}_CERT is shown over TLS, and there is none: set {SETTING}_CA, "
            "POPMQ_PROXY_NAMESERVER_TLS_CA or both"
        )
    files = TlsFiles(
        setting=SETTING,
        certificate=config.link_tls_cert,
        key=config.link_tls_key,
        authority=config.link_tls_ca,
    )
    return connecting_context(files, log)


def nameserver_files(config: ProxyConfig) -> TlsFiles | None:
    """None: they are asked without TLS."""
    if config.nameserver_tls_ca is None:
        return None
    return TlsFiles(
        setting=SETTING,
        certificate=config.link_tls_cert,
        key=config.link_tls_key,
        authority=config.nameserver_tls_ca,
    )


def metrics_files(config: ProxyConfig) -> TlsFiles:
    return TlsFiles(
        setting="POPMQ_PROXY_METRICS_TLS",
        certificate=config.metrics_tls_cert,
        key=config.metrics_tls_key,
        authority=config.metrics_tls_client_ca,
    )
