"""Only who knows the secret changes a registration, and what was recorded changes nothing again."""

import pytest

from popmq_common.errors import NotAuthorized, TooManyRequests
from popmq_common.link.link_secret import SecretClaim, proof
from popmq_nameserver.core import challenges
from popmq_nameserver.core.challenges import VALID_MS, Challenges

SECRET = b"the secret of this cluster"
NOISE = bytes(range(16))


def made(key: bytes = b"the key of this process") -> Challenges:
    return Challenges(SECRET, key)


def show(
    to: Challenges,
    nonce: bytes,
    now_ms: int,
    *,
    claim: SecretClaim = SecretClaim.REGISTER,
    by: bytes = SECRET,
) -> None:
    to.check(SecretClaim.REGISTER, b"request", nonce, proof(by, claim, nonce, b"request"), now_ms)


def test_an_answer_in_time_counts_once() -> None:
    asked = made()
    nonce = asked.nonce(1_000, NOISE)
    show(asked, nonce, 1_000 + VALID_MS)
    with pytest.raises(NotAuthorized):
        show(asked, nonce, 1_000 + VALID_MS)


def test_an_answer_too_late_does_not_count() -> None:
    asked = made()
    with pytest.raises(NotAuthorized):
        show(asked, asked.nonce(1_000, NOISE), 1_001 + VALID_MS)


def test_a_nonce_of_another_process_or_of_nobody_does_not_count() -> None:
    asked = made()
    for nonce in (made(b"another").nonce(1_000, NOISE), b"", bytes(32), bytes(40), b"x"):
        with pytest.raises(NotAuthorized):
            show(asked, nonce, 1_000)


def test_another_secret_or_another_claim_does_not_count() -> None:
    asked = made()
    nonce = asked.nonce(1_000, NOISE)
    with pytest.raises(NotAuthorized):
        show(asked, nonce, 1_000, by=b"another secret")
    with pytest.raises(NotAuthorized):
        show(asked, nonce, 1_000, claim=SecretClaim.HEARTBEAT)
    show(asked, nonce, 1_000)  # what proved nothing has not used it up


def test_another_request_does_not_count() -> None:
    asked = made()
    nonce = asked.nonce(1_000, NOISE)
    shown = proof(SECRET, SecretClaim.REGISTER, nonce, b"request")
    with pytest.raises(NotAuthorized):
        asked.check(SecretClaim.REGISTER, b"another", nonce, shown, 1_000)


def test_memory_is_taken_by_good_answers_only_and_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(challenges, "USED_MAX", 3)
    asked = made()
    for number in range(100):
        with pytest.raises(NotAuthorized):
            show(asked, asked.nonce(1_000, bytes([number] * 16)), 1_000, by=b"guess")
    for number in range(3):
        show(asked, asked.nonce(1_000, bytes([number] * 16)), 1_000)
    with pytest.raises(TooManyRequests):
        show(asked, asked.nonce(1_000, bytes([7] * 16)), 1_000)
    show(asked, asked.nonce(9_000 + VALID_MS, NOISE), 9_000 + VALID_MS)
