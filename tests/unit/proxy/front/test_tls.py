"""The certificate that a proxy makes for itself, read by a library that shares nothing with it."""

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from popmq_common.process.config import ConfigError
from popmq_proxy.front import tls


def test_it_says_what_it_should_and_signs_itself(tmp_path: Path) -> None:
    key_pem, pem = tls.self_signed()
    found = x509.load_pem_x509_certificate(pem)
    found.verify_directly_issued_by(found)
    assert found.subject.rfc4514_string() == "CN=popmq"
    valid = found.not_valid_after_utc - found.not_valid_before_utc
    assert valid == timedelta(days=tls.VALID_DAYS)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    key = serialization.load_pem_private_key(key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == found.public_key()
    chain = tmp_path / "chain.pem"
    chain.write_bytes(key_pem + pem)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain)


def test_a_machine_without_openssl_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="apt-get install openssl, or set POPMQ_PROXY_TLS_CERT"):
        tls.self_signed()


def test_what_openssl_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "openssl").write_text("#!/bin/sh\necho no entropy >&2\nexit 3\n")
    (tmp_path / "openssl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ConfigError, match="no entropy"):
        tls.self_signed()
