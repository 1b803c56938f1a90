"""Whom does a certificate name?"""

from typing import Any

import pytest

from popmq_common.tls.identity import user_of, user_of_grpc

SUBJECT = ((("organizationName", "O"),), (("commonName", "alice"),))


@pytest.mark.parametrize(
    ("certificate", "user"),
    [
        (None, None),
        ({}, None),
        ({"subject": SUBJECT}, "alice"),
        ({"subject": SUBJECT, "subjectAltName": (("DNS", "bob"), ("DNS", "eve"))}, "bob"),
        ({"subject": SUBJECT, "subjectAltName": (("email", "bob@x"),)}, "bob@x"),
        ({"subject": SUBJECT, "subjectAltName": (("URI", "spiffe://x/bob"),)}, "spiffe://x/bob"),
        ({"subject": SUBJECT, "subjectAltName": (("IP Address", "10.0.0.1"),)}, "alice"),
        ({"subject": ((("commonName", ""),),)}, None),
        ({"subject": ()}, None),
    ],
)
def test_the_first_name_that_is_no_address_else_the_common_name(
    certificate: dict[str, Any] | None, user: str | None
) -> None:
    assert user_of(certificate) == user


def test_of_grpc_it_is_the_same() -> None:
    tls = {"transport_security_type": [b"ssl"]}
    common, names = {"x509_common_name": [b"alice"]}, "x509_subject_alternative_name"
    assert user_of_grpc({}) is None
    assert user_of_grpc(tls) is None
    assert user_of_grpc({**tls, **common}) == "alice"
    assert user_of_grpc({**tls, **common, names: [b"bob", b"eve"]}) == "bob"
    mixed = {names: [b"10.0.0.1", b"bob"], "peer_ip": [b"10.0.0.1"]}
    assert user_of_grpc({**tls, **common, **mixed}) == "bob"
    addressed = {names: [b"10.0.0.1"], "peer_ip": [b"10.0.0.1"]}
    assert user_of_grpc({**tls, **common, **addressed}) == "alice"


def test_without_tls_grpc_names_nobody() -> None:
    assert user_of_grpc({"x509_common_name": [b"alice"]}) is None
