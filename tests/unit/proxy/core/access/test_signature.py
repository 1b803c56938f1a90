"""Does a signature say who sends? Those of seven clients, and those that nobody made."""

import hmac
from hashlib import sha1

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import CredentialsRefused
from popmq_proxy.core.access.model import Secret
from popmq_proxy.core.access.signature import is_fresh, is_of, parse

SECRETS = (Secret("secret-of-alice"),)
DATE = b"20261123T101112Z"
NOW_MS = 1_795_428_672_000
"""The same."""


def signed(
    date: bytes = DATE,
    *,
    credential: str = "alice",
    key: str = "secret-of-alice",
    upper: bool = False,
) -> bytes:
    digest = hmac.new(key.encode(), date, sha1).hexdigest()
    text = digest.upper() if upper else digest
    head = f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time"
    return f"{head}, Signature={text}".encode()


def test_a_known_signature() -> None:
    """By openssl: printf 20261123T101112Z | openssl dgst -sha1 -hmac secret-of-alice."""
    known = b"MQv2-HMAC-SHA1 Credential=alice, SignedHeaders=x-mq-date-time, Signature=%s"
    assert is_of(parse(known % KNOWN, DATE), SECRETS)


KNOWN = b"7005d51e0c0f55b688ee1bd0eb79f17c835a3d6a"


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize("credential", ["alice", "alice//Rocketmq", "alice/region/RocketMQ"])
@pytest.mark.parametrize("date", [DATE, b"2026-11-23T18:11:12+08:00"])
def test_every_form_that_official_clients_write_is_taken(
    upper: bool, credential: str, date: bytes
) -> None:
    found = parse(signed(date, credential=credential, upper=upper), date)
    assert found.username == "alice"
    assert is_of(found, SECRETS)


def test_two_keys_are_valid_while_one_is_replaced() -> None:
    both = (Secret("new"), Secret("secret-of-alice"))
    assert is_of(parse(signed(), DATE), both)
    assert is_of(parse(signed(key="new"), DATE), both)
    assert not is_of(parse(signed(key="other"), DATE), both)
    assert not is_of(parse(signed(), DATE), ())


def test_another_date_another_key_or_a_changed_digest_is_none_of_the_users() -> None:
    good = signed()
    assert not is_of(parse(good, b"20261123T101113Z"), SECRETS)
    changed = good[:-1] + (b"0" if good[-1:] != b"0" else b"1")
    assert not is_of(parse(changed, DATE), SECRETS)


@pytest.mark.parametrize(
    ("authorization", "date", "reason"),
    [
        (None, DATE, "not signed"),
        (b"", DATE, "not signed"),
        (signed(), b"", "no x-mq-date-time"),
        (signed(), None, "no x-mq-date-time"),
        (signed(credential=""), DATE, "names no user"),
        (signed(credential="/alice"), DATE, "names no user"),
        (b"Basic YWxpY2U6c2VjcmV0", DATE, "names no user"),
        (signed()[:-2], DATE, "no signature"),
        (signed() + b"zz", DATE, "no signature"),
        (b"MQv2-HMAC-SHA1 Credential=alice", DATE, "no signature"),
        (b"x" * 5_000, DATE, "too long"),
        (signed(), b"2" * 5_000, "too long"),
    ],
)
def test_what_is_wrong_with_a_header_is_told(
    authorization: bytes | None, date: bytes | None, reason: str
) -> None:
    with pytest.raises(CredentialsRefused, match=reason):
        parse(authorization, date)


@given(st.binary(max_size=300), st.binary(max_size=60))
def test_no_bytes_are_more_than_a_refusal_or_a_wrong_signature(
    authorization: bytes, date: bytes
) -> None:
    try:
        found = parse(authorization, date)
    except CredentialsRefused:
        return
    assert not is_of(found, SECRETS)


@pytest.mark.parametrize(
    ("date", "fresh"),
    [
        (DATE, True),
        (b"20261123T181112Z", True),  # local time of Shanghai, written with Z
        (b"20261123T154112Z", True),  # of India
        (b"20261123T101612Z", True),
        (b"20261123T101712Z", False),
        (b"20261122T101112Z", False),
        (b"2026-11-23T18:11:12+08:00", True),
        (b"2026-11-23T18:11:12+00:00", False),
        (b"yesterday", False),
        (b"", False),
        (b"\xff\xfe", False),
    ],
)
def test_a_date_is_fresh_in_some_time_zone_or_not(date: bytes, fresh: bool) -> None:
    assert is_fresh(date, NOW_MS, 5 * 60_000) is fresh
