"""What the configuration says of access, checked at the start; the first Super user."""

import json
from ipaddress import ip_address
from pathlib import Path

from popmq_common.errors import PopMQError
from popmq_common.process.config import ConfigError
from popmq_common.process.logs import Log
from popmq_common.tls.files import check_private
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.access.model import SECRET_CHARS_MIN, Secret, User, UserType, check_username


def check(config: ProxyConfig, log: Log, *, over_link: bool) -> User | None:
    """Who is made when there is nobody. `over_link`: brokers are processes of their own.

    Raises `ConfigError`.
    """
    check_values(config, over_link=over_link)
    if not config.authentication and not is_loopback(config.host):
        means = f"whoever reaches {config.host}:{config.port} may read, write and delete all"
        log.warning("proxy.open", means=means, hint="docs/security.md")
    return None if config.init_user_file is None else _user(config.init_user_file)


def check_values(config: ProxyConfig, *, over_link: bool) -> None:
    """What can be told without reading a file. Raises `ConfigError`."""
    if config.authorization and not config.authentication:
        raise ConfigError(
            "POPMQ_PROXY_AUTHORIZATION asks who a user is, and nobody proves that: set "
            "POPMQ_PROXY_AUTHENTICATION=true too"
        )
    needs_proof = config.authentication and over_link and not is_loopback(config.host)
    if needs_proof and not _has_link_proof(config):
        raise ConfigError(
            "clients must say who they are, but whoever reaches a broker need not: set "
            "POPMQ_PROXY_LINK_SECRET_FILE, and POPMQ_BROKER_LINK_SECRET_FILE at the brokers; or "
            "certificates for the link (docs/tls.md)"
        )


def is_loopback(host: str) -> bool:
    """Only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _has_link_proof(config: ProxyConfig) -> bool:
    """By a secret, or by certificates of which brokers ask for the proxy's."""
    has_secret = bool(config.link_secret) or config.link_secret_file is not None
    return has_secret or config.link_tls_cert is not None


def _user(path: Path) -> User:
    check_private(path, "the file of the first user")
    try:
        fields = json.loads(path.read_text())
        name, secret = str(fields["username"]), str(fields["password"])
        check_username(name)
    except OSError as wrong:
        raise ConfigError(f"the first user cannot be read: {wrong}") from wrong
    except (ValueError, KeyError, TypeError, PopMQError) as wrong:
        text = 'expected {"username": "admin", "password": "…"}'
        raise ConfigError(f"{path} names no user, {text}: {wrong}") from wrong
    if len(secret) < SECRET_CHARS_MIN:
        raise ConfigError(f"the password in {path} has less than {SECRET_CHARS_MIN} characters")
    return User(name, UserType.SUPER, secrets=(Secret(secret),))
