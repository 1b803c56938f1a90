"""The register that a broker's configuration names."""

from popmq_broker.clients.register.open_register import open_register
from popmq_broker.clients.register.register import Register
from popmq_broker.config import BrokerConfig


def register_of(config: BrokerConfig) -> Register:
    """Of the replicas of this broker. Call it in the event loop. Raises `ConfigError`."""
    return open_register(
        config.register,
        config.cluster,
        config.name,
        user=config.register_user,
        password_file=config.register_password_file,
        ca=config.register_tls_ca,
        cert=config.register_tls_cert,
        key=config.register_tls_key,
    )
