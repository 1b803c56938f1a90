"""The signed headers of a request.

    x-mq-date-time: 20261123T101112Z
    authorization: MQv2-HMAC-SHA1 Credential=<access key>, SignedHeaders=x-mq-date-time, Signature=<hex>
    x-mq-session-token: <token>          if there is one

The signature is the HMAC-SHA1 of the date-time's bytes; the key is the secret in UTF-8. It covers
neither the method nor the body, so whoever can read a request can send others: use TLS.

Source: docs/transport.md of apache/rocketmq-clients.
"""  # noqa: E501 - a header is one line

import hashlib
import hmac
from datetime import UTC, datetime

Headers = tuple[tuple[str, str], ...]


def date_time(at_s: int) -> str:
    """`at_s`: seconds since 1970."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%dT%H%M%SZ")


def authorization(access_key: str, secret_key: str, signed: str) -> str:
    """`signed`: the value of x-mq-date-time."""
    signature = hmac.new(secret_key.encode(), signed.encode(), hashlib.sha1).hexdigest()
    return (
        f"MQv2-HMAC-SHA1 Credential={access_key}, "
        f"SignedHeaders=x-mq-date-time, Signature={signature.upper()}"
    )


class SignedHeaders:
    """Of one client. They are made once a second; any thread may ask."""

    def __init__(self, access_key: str = "", secret_key: str = "", session_token: str = "") -> None:
        """Without an access key there is the date alone."""
        self._access_key, self._secret_key = access_key, secret_key
        self._token: Headers = (("x-mq-session-token", session_token),) if session_token else ()
        self._latest: tuple[int, Headers] = (-1, ())

    def at(self, at_s: int) -> Headers:
        second, headers = self._latest
        if second == at_s:
            return headers
        written = date_time(at_s)
        headers = (("x-mq-date-time", written),)
        if self._access_key:
            signed = authorization(self._access_key, self._secret_key, written)
            headers = (*headers, ("authorization", signed), *self._token)
        self._latest = at_s, headers
        return headers


def client_headers(*, client_id: str, namespace: str, version: str) -> Headers:
    """What else all requests of a client carry."""
    return (
        ("x-mq-language", "PYTHON"),
        ("x-mq-protocol", "v2"),
        ("x-mq-client-version", version),
        ("x-mq-client-id", client_id),
        ("x-mq-namespace", namespace),
    )
