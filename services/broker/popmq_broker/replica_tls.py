"""With which files a replica connects to another one."""

from popmq_broker.config import BrokerConfig
from popmq_common.tls.files import TlsFiles


def replica_files(config: BrokerConfig) -> TlsFiles:
    """With which a follower connects to its primary."""
    return TlsFiles(
        setting="POPMQ_BROKER_REPLICA_TLS",
        certificate=config.link_tls_cert,
        key=config.link_tls_key,
        authority=config.replica_tls_ca,
    )
