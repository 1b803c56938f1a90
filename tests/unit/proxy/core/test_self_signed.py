"""A certificate written by hand, read and checked by a library that shares nothing with it."""

import random
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from popmq_proxy.core.self_signed import N, self_signed, sign, times

KEY = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
"""RFC 6979, A.2.5."""
ONCE = 0xA6E3C57DD01ABE90086538398355DD4C3B17AA873382B0F24D6129493D8AAD60
NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def test_the_example_of_the_rfc() -> None:
    assert times(KEY) == (
        0x60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6,
        0x7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299,
    )
    assert sign(KEY, b"sample", lambda _: ONCE - 1) == (
        0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
        0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8,
    )


def test_the_ends_of_the_curve() -> None:
    """The last multiple is the first one's opposite."""
    (x, y), (last_x, last_y) = times(1), times(N - 1)
    assert x == last_x
    assert y != last_y
    ec.EllipticCurvePublicNumbers(last_x, last_y, ec.SECP256R1()).public_key()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("years", [10, 30])
def test_it_says_what_it_should_and_signs_itself(seed: int, years: int, tmp_path: Path) -> None:
    """The years of its end have two digits, or four."""
    ends = NOW + timedelta(days=366 * years)
    key_pem, pem = self_signed("popmq", "localhost", NOW, ends, random.Random(seed).randrange)
    found = x509.load_pem_x509_certificate(pem)
    found.verify_directly_issued_by(found)
    assert found.version is x509.Version.v3
    assert found.subject.rfc4514_string() == "CN=popmq"
    assert (found.not_valid_before_utc, found.not_valid_after_utc) == (NOW, ends)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    key = serialization.load_pem_private_key(key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == found.public_key()
    chain = tmp_path / "chain.pem"
    chain.write_bytes(key_pem + pem)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain)
