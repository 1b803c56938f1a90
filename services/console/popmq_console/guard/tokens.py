"""Values that a visitor carries and cannot make: the signed cookie, the token in each form.

The cookie is `<visitor id>.<HMAC-SHA256 of it>`; the token is another HMAC of the visitor id. The
key is the console's own, made at its start, so cookies of an earlier run are void.
"""

import hmac
from hashlib import sha256
from typing import Final

ID_CHARS_MAX: Final = 64


def cookie_of(key: bytes, visitor_id: str) -> str:
    return f"{visitor_id}.{_mac(key, 'cookie', visitor_id)}"


def visitor_of(key: bytes, cookie: str) -> str:
    """The visitor's id; empty: the cookie is not ours."""
    visitor_id, dot, mac = cookie.partition(".")
    if not dot or not visitor_id or len(visitor_id) > ID_CHARS_MAX or not mac.isascii():
        return ""
    return visitor_id if hmac.compare_digest(mac, _mac(key, "cookie", visitor_id)) else ""


def form_token(key: bytes, visitor_id: str) -> str:
    return _mac(key, "form", visitor_id)


def is_form_token(key: bytes, visitor_id: str, shown: str) -> bool:
    return shown.isascii() and hmac.compare_digest(shown, form_token(key, visitor_id))


def _mac(key: bytes, purpose: str, text: str) -> str:
    return hmac.new(key, f"{purpose}:{text}".encode(), sha256).hexdigest()
