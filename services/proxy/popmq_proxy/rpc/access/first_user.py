"""What the configuration says of access, checked at the start; the first Super user."""

import json
from pathlib import Path
from typing import Final

from popmq_common.errors import PopMQError
from popmq_common.process.config import ConfigError
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.access.model import Secret, User, UserType, check_username

OTHERS_BITS: Final = 0o077
SECRET_CHARS_MIN: Final = 8


def read(config: ProxyConfig) -> User | None:
    """Who is made when there is nobody. Raises `ConfigError`."""
    if config.authorization and not config.authentication:
        raise ConfigError(
            "POPMQ_PROXY_AUTHORIZATION asks who a user is, and nobody proves that: set "
            "POPMQ_PROXY_AUTHENTICATION=true too"
        )
    return None if config.init_user_file is None else _user(config.init_user_file)


def _user(path: Path) -> User:
    try:
        if path.stat().st_mode & OTHERS_BITS:
            raise ConfigError(f"others may read {path}, which has a secret: chmod 600 {path}")
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
