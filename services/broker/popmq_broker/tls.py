"""Which files the broker's connections use: its link, its page of metrics, and nameservers."""

from popmq_broker.config import BrokerConfig
from popmq_common.tls.files import TlsFiles


def link_files(config: BrokerConfig) -> TlsFiles:
    return TlsFiles(
        setting="POPMQ_BROKER_LINK_TLS",
        certificate=config.link_tls_cert,
        key=config.link_tls_key,
        authority=config.link_tls_client_ca,
    )


def metrics_files(config: BrokerConfig) -> TlsFiles:
    return TlsFiles(
        setting="POPMQ_BROKER_METRICS_TLS",
        certificate=config.metrics_tls_cert,
        key=config.metrics_tls_key,
        authority=config.metrics_tls_client_ca,
    )


def nameserver_files(config: BrokerConfig) -> TlsFiles | None:
    """None: they are asked without TLS."""
    if config.nameserver_tls_ca is None:
        return None
    return TlsFiles(
        setting="POPMQ_BROKER_LINK_TLS",
        certificate=config.link_tls_cert,
        key=config.link_tls_key,
        authority=config.nameserver_tls_ca,
    )


def replica_files(config: BrokerConfig) -> TlsFiles:
    """With which a follower connects to its primary."""
    return TlsFiles(
        setting="POPMQ_BROKER_REPLICA_TLS",
        certificate=config.link_tls_cert,
        key=config.link_tls_key,
        authority=config.replica_tls_ca,
    )
