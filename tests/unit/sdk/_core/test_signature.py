"""Are requests signed as RocketMQ's servers check it?"""

from typing import Any

import pytest

from popmq._core import signature
from popmq._core.signature import SignedHeaders, authorization, date_time

AT_S = 1_795_428_672  # 2026-11-23 10:11:12 UTC


@pytest.mark.parametrize(
    ("secret_key", "signed", "expected"),
    [
        ("sk", "20260101T000000Z", "7D48B06369ADC2335751B3604F89EA92F419DAB4"),
        ("secret-key", "20261123T101112Z", "86AF1A461C2AE87C5954081708F4D550FDBD0A79"),
        ("geheim-ß-密", "20261123T101112Z", "921861FBFA5003C02ADB93EA7D9284F54961A9DD"),
    ],
)
def test_it_is_the_signature_that_openssl_makes(
    secret_key: str, signed: str, expected: str
) -> None:
    """printf DATE | openssl dgst -sha1 -hmac SECRET"""
    assert authorization("ak", secret_key, signed) == (
        f"MQv2-HMAC-SHA1 Credential=ak, SignedHeaders=x-mq-date-time, Signature={expected}"
    )


def test_the_date_is_of_utc() -> None:
    assert date_time(AT_S) == "20261123T101112Z"


def test_a_signed_request_has_date_signature_and_token() -> None:
    headers = dict(SignedHeaders("ak", "secret-key", "token").at(AT_S))
    assert headers["x-mq-date-time"] == "20261123T101112Z"
    assert headers["authorization"].endswith("=86AF1A461C2AE87C5954081708F4D550FDBD0A79")
    assert headers["x-mq-session-token"] == "token"


def test_without_credentials_the_date_is_alone() -> None:
    assert dict(SignedHeaders().at(AT_S)) == {"x-mq-date-time": "20261123T101112Z"}


def test_a_second_is_signed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(access_key: str, secret_key: str, signed: str) -> str:
        made.append(signed)
        return authorization(access_key, secret_key, signed)

    module: Any = signature
    monkeypatch.setattr(module, "authorization", counted)
    signed = SignedHeaders("ak", "sk")
    found = [dict(signed.at(AT_S + at_s))["x-mq-date-time"] for at_s in (0, 0, 0, 1, 1, 0)]
    assert made == ["20261123T101112Z", "20261123T101113Z", "20261123T101112Z"]
    assert found == [made[0]] * 3 + [made[1]] * 2 + [made[2]]
