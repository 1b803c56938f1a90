"""The link's shared secret: where it is read, and how its owners prove that they know it.

A proof is HMAC-SHA256 of a text that says who proves what to whom, with the secret as its key. The
secret itself is never sent. A peer that is not what it claims to be learns a proof of its own
nonce at most, by which it may try guesses: take a random secret.

    text   "popmq link 1", then each part behind its length, 4 bytes big-endian:
           what is proved (a `SecretClaim`), then what belongs to it
"""

import hmac
from enum import Enum
from pathlib import Path
from struct import Struct
from typing import Final

from popmq_common.process.config import ConfigError

NONCE_BYTES: Final = 32
FILE_BYTES_MIN: Final = 16
_LENGTH: Final = Struct(">I")


class SecretClaim(Enum):
    """What a proof is of; the parts that belong to it."""

    PROXY = b"proxy"
    """A proxy to a broker: the broker's name, the proxy's nonce, the broker's nonce."""
    BROKER = b"broker"
    """A broker to a proxy: the same parts."""
    REGISTER = b"register"
    """A broker to a nameserver: the nameserver's nonce, the request's bytes."""
    UPDATE = b"update"
    HEARTBEAT = b"heartbeat"
    UNREGISTER = b"unregister"


def proof(secret: bytes, claim: SecretClaim, *parts: bytes) -> bytes:
    """32 bytes."""
    text = b"".join([_LENGTH.pack(len(part)) + part for part in (claim.value, *parts)])
    return hmac.digest(secret, b"popmq link 1" + text, "sha256")


def proves(shown: bytes, secret: bytes, claim: SecretClaim, *parts: bytes) -> bool:
    return hmac.compare_digest(shown, proof(secret, claim, *parts))


def read(text: str, path: Path | None) -> bytes:
    """Of a variable, or of a file without the white space around it; empty: there is none.

    Raises `ConfigError` for both at once, and for a file that cannot be read or is too short.
    """
    if path is None:
        return text.encode()
    if text:
        raise ConfigError("the link's secret is given twice: as LINK_SECRET and LINK_SECRET_FILE")
    try:
        secret = path.read_bytes().strip()
    except OSError as wrong:
        raise ConfigError(f"the link's secret cannot be read: {wrong}") from wrong
    if len(secret) < FILE_BYTES_MIN:
        raise ConfigError(
            f"the link's secret in {path} has {len(secret)} bytes; take {FILE_BYTES_MIN} or more, "
            "such as: openssl rand -hex 32"
        )
    return secret
