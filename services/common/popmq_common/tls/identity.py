"""Who a peer is, by its certificate, which has been verified before.

The first name of its subjectAltName that is no address, else the subject's common name.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

NAMES_OF_USERS: Final = ("DNS", "URI", "email")


def user_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Of what `ssl` tells of a peer's certificate; None: it has shown none."""
    if not certificate:
        return None
    for kind, value in certificate.get("subjectAltName", ()):
        if kind in NAMES_OF_USERS and value:
            return str(value)
    for relative in certificate.get("subject", ()):
        for kind, value in relative:
            if kind == "commonName" and value:
                return str(value)
    return None


def user_of_grpc(properties: Mapping[str, Iterable[bytes]]) -> str | None:
    """Of what gRPC tells of a connection."""
    if list(properties.get("transport_security_type", ())) != [b"ssl"]:
        return None
    addresses = set(properties.get("peer_ip", ()))
    names = [
        name
        for name in properties.get("x509_subject_alternative_name", ())
        if name and name not in addresses
    ]
    for name in [*names, *properties.get("x509_common_name", ())]:
        if name:
            return name.decode("utf-8", "replace")
    return None
