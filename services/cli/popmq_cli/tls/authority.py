"""An authority in a folder: its own certificate and key, and those that it signs.

Needs `cryptography` (popmq[tls]); only the commands load this.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
CLOCKS: Final = timedelta(hours=1)
"""How far another machine's clock may be behind."""
PEM: Final = serialization.Encoding.PEM
E = TypeVar("E", bound=x509.ExtensionType)


class KeyPair(NamedTuple):
    """Both PEM."""

    certificate: bytes
    key: bytes


class Leaf(NamedTuple):
    """What a certificate says of its owner."""

    name: str
    hosts: tuple[str, ...] = ()
    """Names and addresses; those who connect to it ask for one of them."""
    serves: bool = False
    """It is a server's, too; else a client's alone."""


class Authority:
    def __init__(self, pair: KeyPair) -> None:
        """Raises `ValueError` for what cannot be read, or do not belong together."""
        self.certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is none of popmq tls init")
        if key.public_key() != self.certificate.public_key():
            raise ValueError("its key is of another certificate")
        self._key = key

    def sign(self, leaf: Leaf, days: int) -> KeyPair:
        """A new key for it too. Not longer than the authority's own certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        ends = min(now + timedelta(days=days), self.certificate.not_valid_after_utc)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if leaf.serves:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        builder = (
            x509.CertificateBuilder(
                self.certificate.subject,
                _subject(leaf.name),
                key.public_key(),
                x509.random_serial_number(),
            )
            .not_valid_before(now - CLOCKS)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        )
        if leaf.hosts:
            names = x509.SubjectAlternativeName([general_name(host) for host in leaf.hosts])
            builder = builder.add_extension(names, critical=False)
        return _signed(builder, key, self._key)


def new_authority(name: str, days: int = AUTHORITY_DAYS) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(
            _subject(name), _subject(name), key.public_key(), x509.random_serial_number()
        )
        .not_valid_before(now - CLOCKS)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certifies=True), critical=True)
    )
    return _signed(builder, key, key)


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
) -> KeyPair:
    made = (
        builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
            critical=False,
        )
        .sign(authority, hashes.SHA256())
    )
    plain, pkcs8 = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
    return KeyPair(made.public_bytes(PEM), key.private_bytes(PEM, pkcs8, plain))


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs: bool = False, certifies: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certifies,
        crl_sign=certifies,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class CertificateFacts(NamedTuple):
    """What a certificate says."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    is_authority: bool
    uses: tuple[str, ...]


def shown(pem: bytes) -> list[CertificateFacts]:
    """The certificates of a chain, the first one first. Raises `ValueError`."""
    return [_shown(one) for one in x509.load_pem_x509_certificates(pem)]


def leaf_of(pem: bytes) -> Leaf:
    """What a certificate was made of, to make it again. Raises `ValueError`."""
    found = _shown(x509.load_pem_x509_certificate(pem))
    return Leaf(found.subject, found.names, serves="server" in found.uses)


def _shown(one: x509.Certificate) -> CertificateFacts:
    uses = _extension(one, x509.ExtendedKeyUsage)
    basic = _extension(one, x509.BasicConstraints)
    names = _extension(one, x509.SubjectAlternativeName)
    of_uses = {
        ExtendedKeyUsageOID.SERVER_AUTH: "server",
        ExtendedKeyUsageOID.CLIENT_AUTH: "client",
    }
    return CertificateFacts(
        subject=_told(one.subject),
        issuer=_told(one.issuer),
        names=tuple(_values(names or ())),
        not_before=one.not_valid_before_utc,
        not_after=one.not_valid_after_utc,
        is_authority=basic is not None and basic.ca,
        uses=tuple(of_uses.get(use, use.dotted_string) for use in uses or ()),
    )


def _extension(one: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return one.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _values(names: Iterable[x509.GeneralName]) -> Iterable[str]:
    for name in names:
        yield str(name.value)


def _told(name: x509.Name) -> str:
    """The common name, or all of it where there is none."""
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(common[0].value) if common else name.rfc4514_string()
