"""Where the servers are, and how a connection to one of them is made.

`host:port`, or several with `;` between them, as official clients write it. They are used one at a
time: when one does not answer, the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import grpc

MESSAGE_BYTES_MAX: Final = 130 * 1024 * 1024
OPTIONS: Final[list[tuple[str, int | str]]] = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3_000),  # how long one try to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
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


def addresses(text: str) -> tuple[str, ...]:
    """Raises `ValueError`."""
    found = tuple(part.strip() for part in text.split(";") if part.strip())
    cleaned = tuple(part.removeprefix("http://").removeprefix("https://") for part in found)
    if not cleaned:
        raise ValueError("an endpoint is host:port, or several of them with ; between them")
    return cleaned


def channel(module: Any, address: str, tls: Tls | None) -> Any:
    """`module`: `grpc`, for threads, or `grpc.aio`."""
    if tls is None:
        return module.insecure_channel(address, OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    options = list(OPTIONS)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return module.secure_channel(address, credentials, options)


class InTurn(Generic[C]):
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
