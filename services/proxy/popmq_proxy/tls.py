"""The proxy's connections to brokers. Those of clients are in front/tls.py."""

import ssl

from popmq_common.process.config import ConfigError
from popmq_common.process.logs import Log
from popmq_common.tls.service_ends import connecting_context
from popmq_common.tls.settings import link_files
from popmq_proxy.config import ProxyConfig


def broker_context(config: ProxyConfig, log: Log) -> ssl.SSLContext | None:
    """None: the link has no TLS. Raises `ConfigError`."""
    files = link_files(config, "PROXY", config.link_tls_ca)
    shows = config.link_tls_cert is not None or config.link_tls_key is not None
    if shows and config.link_tls_ca is None and config.nameserver_tls_ca is None:
        raise ConfigError(
            f"{files.setting}_CERT is shown over TLS, and there is none: set {files.setting}_CA, "
            "POPMQ_PROXY_NAMESERVER_TLS_CA or both"
        )
    return connecting_context(files, log)
