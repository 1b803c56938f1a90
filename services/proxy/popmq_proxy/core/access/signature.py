"""The signature of a request: RocketMQ's MQv2-HMAC-SHA1.

    authorization:  MQv2-HMAC-SHA1 Credential=<user>[/…], SignedHeaders=x-mq-date-time,
                    Signature=<hex>
    x-mq-date-time: 20261123T101112Z
    signature       hex of HMAC-SHA1(key: the user's secret, message: the bytes of x-mq-date-time)

It proves who sends, not what: neither method nor body is signed, so who reads one header may use
it again. TLS is what keeps it secret; docs/security.md.

Source: RocketMQ DefaultAuthenticationContextBuilder; the clients' Signature classes.
"""

import hmac
from datetime import UTC, datetime
from hashlib import sha1
from typing import Final, NamedTuple

from popmq_common.errors import CredentialsRefused
from popmq_proxy.core.access.model import Secret

HEADER_BYTES_MAX: Final = 4_096
DATE_FORM: Final = "%Y%m%dT%H%M%SZ"
ZONE_STEP_S: Final = 15 * 60
ZONES_S: Final = 14 * 3_600


class Signature(NamedTuple):
    username: str
    digest: bytes
    date: bytes
    """As it came; what was signed."""


def parse(authorization: bytes | None, date: bytes | None) -> Signature:
    """Raises `CredentialsRefused`."""
    if not authorization:
        raise CredentialsRefused(reason="the request is not signed")
    if not date:
        raise CredentialsRefused(reason="the request has no x-mq-date-time")
    if len(authorization) > HEADER_BYTES_MAX or len(date) > HEADER_BYTES_MAX:
        raise CredentialsRefused(reason="its header authorization is too long")
    text = authorization.decode("utf-8", "replace")
    fields = dict(_field(part) for part in text.partition(" ")[2].split(","))
    username = fields.get("Credential", "").partition("/")[0]
    if not username:
        raise CredentialsRefused(reason="its header authorization names no user")
    try:
        digest = bytes.fromhex(fields.get("Signature", ""))
    except ValueError:
        digest = b""
    if len(digest) != sha1().digest_size:
        raise CredentialsRefused(reason="its header authorization has no signature")
    return Signature(username, digest, date)


def _field(part: str) -> tuple[str, str]:
    name, _, value = part.strip().partition("=")
    return name, value


def is_of(signature: Signature, secrets: tuple[Secret, ...]) -> bool:
    """One of the keys made it. Takes the same time for each of them."""
    found = False
    for secret in secrets:
        made = hmac.new(secret.key.encode(), signature.date, sha1).digest()
        found |= hmac.compare_digest(made, signature.digest)
    return found


def is_fresh(date: bytes, now_ms: int, window_ms: int) -> bool:
    """The date is now in some time zone: half of the official clients write local time as if it
    were UTC, one writes it with its offset."""
    text = date.decode("ascii", "replace")
    try:
        at = datetime.strptime(text, DATE_FORM).replace(tzinfo=UTC)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            return False
        if at.tzinfo is not None:
            return abs(at.timestamp() * 1_000 - now_ms) <= window_ms
        at = at.replace(tzinfo=UTC)
    off_s = at.timestamp() - now_ms / 1_000
    if abs(off_s) > ZONES_S + window_ms / 1_000:
        return False
    return abs(off_s - round(off_s / ZONE_STEP_S) * ZONE_STEP_S) <= window_ms / 1_000
