"""Who may change a registration: a broker that answers a challenge with the link's secret.

    bytes   field
    0       issued_ms, i64 big-endian, of a clock that never goes back
    8       16 random bytes
    24      32: HMAC-SHA256 of the 24 before, with a key that lives and ends with this process

A nonce that was given out is not remembered; its own checksum says that it is ours, and when it
ends. Only one that was answered well is remembered until then, so that a call that somebody
recorded does nothing when it is repeated, and who does not know the secret takes no memory.
"""

import hmac
from collections import OrderedDict
from struct import Struct
from struct import error as StructError
from typing import Final

from popmq_common.errors import NotAuthorized, TooManyRequests
from popmq_common.link.link_secret import SecretClaim, proves

VALID_MS: Final = 10_000
USED_MAX = 100_000
"""Answers within `VALID_MS`; a thousand brokers give some 2,000."""
NOISE_BYTES: Final = 16
_HEAD: Final = Struct(f">q{NOISE_BYTES}s")


class Challenges:
    def __init__(self, secret: bytes, key: bytes) -> None:
        """`key`: random, of this process alone."""
        self._secret = secret
        self._key = key
        self._used: OrderedDict[bytes, int] = OrderedDict()
        """Nonces answered, and when: the oldest first."""

    def nonce(self, now_ms: int, noise: bytes) -> bytes:
        """`noise`: `NOISE_BYTES` random bytes."""
        head = _HEAD.pack(now_ms, noise)
        return head + hmac.digest(self._key, head, "sha256")

    def check(
        self, claim: SecretClaim, request: bytes, nonce: bytes, shown: bytes, now_ms: int
    ) -> None:
        """Raises `NotAuthorized`, `TooManyRequests`."""
        if not self._is_ours(nonce, now_ms) or nonce in self._used:
            raise NotAuthorized()
        if not proves(shown, self._secret, claim, nonce, request):
            raise NotAuthorized()
        while self._used and now_ms - next(iter(self._used.values())) > VALID_MS:
            self._used.popitem(last=False)
        if len(self._used) >= USED_MAX:
            raise TooManyRequests(what="changes of registrations", limit=USED_MAX)
        self._used[nonce] = now_ms

    def _is_ours(self, nonce: bytes, now_ms: int) -> bool:
        head = nonce[: _HEAD.size]
        if not hmac.compare_digest(nonce[_HEAD.size :], hmac.digest(self._key, head, "sha256")):
            return False
        try:
            issued_ms, _ = _HEAD.unpack(head)
        except StructError:
            return False
        return 0 <= now_ms - int(issued_ms) <= VALID_MS
