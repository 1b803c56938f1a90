"""Request metadata: who calls, and the signature over the date if there are credentials.

Source: docs/transport.md of apache/rocketmq-clients.
"""

import hashlib
import hmac
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret_key: str


def metadata(
    *,
    client_id: str,
    namespace: str,
    request_id: str,
    date_time: str,
    version: str,
    credentials: Credentials | None,
) -> tuple[tuple[str, str], ...]:
    fields = [
        ("x-mq-language", "PYTHON"),
        ("x-mq-protocol", "v2"),
        ("x-mq-client-version", version),
        ("x-mq-date-time", date_time),
        ("x-mq-request-id", request_id),
        ("x-mq-client-id", client_id),
        ("x-mq-namespace", namespace),
    ]
    if credentials is not None:
        secret = credentials.secret_key.encode()
        signed = hmac.new(secret, date_time.encode(), hashlib.sha1).hexdigest().upper()
        text = (
            f"MQv2-HMAC-SHA1 Credential={credentials.access_key}, "
            f"SignedHeaders=x-mq-date-time, Signature={signed}"
        )
        fields.append(("authorization", text))
    return tuple(fields)
