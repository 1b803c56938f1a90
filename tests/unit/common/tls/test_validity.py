"""Until when is a certificate valid? Held to a library that shares nothing with it."""

import ssl
from datetime import timedelta

import pytest
from cryptography import x509
from harness.authority import Authority
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.tls.validity import BEGIN, END, validity_of


@pytest.mark.parametrize("days", [1, 9_000, 20_000])
def test_it_is_what_the_certificate_says(authority: Authority, days: int) -> None:
    """Years from 2050 on have another form."""
    path = authority.signed(f"valid-{days}", ends=timedelta(days=days)).certificate
    found = x509.load_pem_x509_certificate(path.read_bytes())
    told = validity_of(path.read_text())
    assert told == (found.not_valid_before_utc, found.not_valid_after_utc)


def test_of_a_chain_the_first_one_counts(authority: Authority) -> None:
    first = authority.signed("first", ends=timedelta(days=3)).certificate.read_text()
    second = authority.signed("second", ends=timedelta(days=5)).certificate.read_text()
    assert validity_of(f"some words\n{first}{second}") == validity_of(first)


@pytest.mark.parametrize("text", ["", "x", BEGIN, f"{BEGIN}\n{END}", f"{BEGIN}\nAAAA\n{END}"])
def test_what_is_no_certificate_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="certificate"):
        validity_of(text)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 400))
def test_damaged_bytes_are_an_error_or_times(
    authority: Authority, at: int, value: int, size: int
) -> None:
    der = bytearray(ssl.PEM_cert_to_DER_cert(authority.pem.read_text()))
    der[at] = value
    try:
        validity_of(ssl.DER_cert_to_PEM_cert(bytes(der[:size])))
    except ValueError:
        return
