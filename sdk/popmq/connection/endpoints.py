"""Where the servers are, and how a connection to one of them is made.

    127.0.0.1:8081   queue.example   http://[::1]:8081   https://queue.example:443   a:8081;b:8081

`https://` is TLS, with the server's certificate checked. Several servers are used one at a time:
when one does not answer, the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import grpc

MESSAGE_BYTES_MAX: Final = 130 * 1024 * 1024
OPTIONS: Final[list[tuple[str, int | str]]] = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3_000),  # how long one try to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
PORT: Final = 8081
"""Where no port is written."""
C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """`ca`: certificates to trust, PEM; None: those that gRPC knows. `certificate` and `key`: of
    this client, PEM, if the server asks. `server_name`: what the certificate is made out to, if
    not the host's name."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a client's certificate and its key are given together")

    @classmethod
    def from_files(
        cls,
        *,
        ca: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
        server_name: str = "",
    ) -> Self:
        """The same from files. Raises `OSError`, `ValueError`."""
        pem = [None if path is None else Path(path).read_bytes() for path in (ca, certificate, key)]
        return cls(ca=pem[0], certificate=pem[1], key=pem[2], server_name=server_name)


class Endpoints(NamedTuple):
    addresses: tuple[str, ...]
    """host:port each."""
    tls: Tls | None
    """None: plaintext."""

    @classmethod
    def of(cls, text: str, tls: bool | Tls | None = None) -> Self:
        """`tls` None: as the scheme says. Raises `ValueError`."""
        found = [_parsed(part.strip()) for part in text.split(";") if part.strip()]
        if not found:
            raise _wrong(text, "there is none")
        schemes = {scheme for scheme, _ in found}
        if len(schemes) > 1 and "https" in schemes:
            raise _wrong(text, "https:// is for all of them or for none")
        if tls and "http" in schemes:
            raise _wrong(text, "http:// is plaintext, and tls=True is not")
        if tls is False and "https" in schemes:
            raise _wrong(text, "https:// is TLS, and tls=False is not")
        addresses = tuple(address for _, address in found)
        if isinstance(tls, Tls):
            return cls(addresses, tls)
        return cls(addresses, Tls() if tls or "https" in schemes else None)


def _parsed(part: str) -> tuple[str, str]:
    """(scheme or "", host:port)."""
    scheme, colon, rest = part.partition("://")
    if not colon:
        scheme, rest = "", part
    elif scheme not in ("http", "https"):
        raise _wrong(part, f"{scheme}:// is neither http:// nor https://")
    authority, _, path = rest.partition("/")
    if path:
        raise _wrong(part, f"/{path} does not belong there")
    if "," in authority:
        raise _wrong(part, "between several there is a ';'")
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, str(PORT)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise _wrong(part, f"an IPv6 address has brackets, as in [::1]:{PORT}")
    if not host:
        raise _wrong(part, "it has no host")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise _wrong(part, f"{port!r} is no port")
    return scheme, f"{host}:{port}"


def _wrong(text: str, why: str) -> ValueError:
    form = "host:port, http://host:port or https://host:port, or several with ';'"
    return ValueError(f"{text!r} is no endpoint: {why}. An endpoint is {form}.")


def wants_certificate(details: str, tls: Tls | None) -> bool:
    """The server may have hung up because this client shows none; it does not say so."""
    shows_none = tls is not None and tls.certificate is None
    return shows_none and ("Socket closed" in details or "Connection reset" in details)


def hint(details: str, tls: Tls | None) -> str:
    """What to do about a failure of TLS; gRPC says it in its text alone. Empty: it is another."""
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return "; nobody whom this client trusts has signed it: tls=Tls.from_files(ca=…)"
    if "Hostname Verification" in details or "Peer name" in details:
        return "; its certificate is for another name: tls=Tls.from_files(server_name=…)"
    if wants_certificate(details, tls):
        return "; it may ask for a certificate: tls=Tls.from_files(certificate=…, key=…)"
    return ""


def channel(module: Any, address: str, tls: Tls | None) -> Any:
    """`module`: `grpc`, for threads, or `grpc.aio`."""
    if tls is None:
        return module.insecure_channel(address, OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    options = list(OPTIONS)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return module.secure_channel(address, credentials, options)


class ServerRotation(Generic[C]):
    """One of several, made when it is first used; another one after a failure."""

    def __init__(self, names: tuple[str, ...], make: Callable[[str], C]) -> None:
        self._names, self._make = names, make
        self.made: dict[str, C] = {}
        self._at = 0

    @property
    def name(self) -> str:
        return self._names[self._at]

    def current(self) -> C:
        name = self.name
        found = self.made.get(name)
        if found is None:
            found = self.made[name] = self._make(name)
        return found

    def failed(self, name: str) -> None:
        """`name` did not answer: on to the next, if nobody has gone on yet."""
        if name == self.name:
            self._at = (self._at + 1) % len(self._names)
