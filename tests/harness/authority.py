"""An authority for tests, that signs what they ask for: right certificates and wrong ones.

It is not the one of `popmq tls`: what accepts these does so for what they say.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from harness.certificates import Certified

HOSTS = ("localhost", "127.0.0.1")
HOUR = timedelta(hours=1)
PEM = serialization.Encoding.PEM


class Authority:
    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(self._name, self._name, self._key.public_key(), 1)
            .not_valid_before(now - 100 * HOUR)
            .not_valid_after(now + HOUR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = folder / f"{name}.pem"
        self.pem.write_bytes(made.public_bytes(PEM))

    def signed(
        self,
        name: str,
        hosts: Sequence[str] = HOSTS,
        *,
        begins: timedelta = -2 * HOUR,
        ends: timedelta = HOUR,
        into: Path | None = None,
    ) -> Certified:
        """Common name `name`, valid from `begins` to `ends` from now; `into`: a folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        number = x509.random_serial_number()
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), number)
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        folder = into or self.folder
        folder.mkdir(exist_ok=True)
        found = Certified(folder / f"{name}.pem", folder / f"{name}.key")
        found.certificate.write_bytes(made.public_bytes(PEM))
        plain, pkcs8 = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
        found.key.touch(0o600)
        found.key.write_bytes(key.private_bytes(PEM, pkcs8, plain))
        return found


def _general(host: str) -> x509.GeneralName:
    if "@" in host:
        return x509.RFC822Name(host)
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
