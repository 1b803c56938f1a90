"""Is a gRPC service serving? grpc.health.v1 by the standard library alone.

`python -m popmq_cli.cluster.probe HOST:PORT` is for health checks of containers: it is run again
and again, and takes a tenth of the processor time that a gRPC client's start takes. Exit codes and
options (`--tls`, `--tls-ca FILE`, `--tls-cert FILE`, `--tls-key FILE`) as those of `popmq health`.

The call is three frames of HTTP/2 (RFC 9113), its headers in HPACK without compression (RFC 7541);
the answer is the first message on the stream: flag, length, HealthCheckResponse.
"""

import socket
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 16_384
"""Frames of no such call are larger."""
SERVING: Final = b"\0\0\0\0\2\x08\1"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM = _ACK = 1
_END_HEADERS = 4
_FRAME_HEAD_BYTES = 9
_STREAM = 1


def _text(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


_POST, _HTTP, _PATH, _AUTHORITY, _NAMED_TYPE, _NEW_NAME = (
    b"\x83",
    b"\x86",
    b"\x04",
    b"\x01",
    b"\x0f\x10",
    b"\0",
)
_HEADER_BLOCK: Final = (
    _POST
    + _HTTP
    + _PATH
    + _text(b"/grpc.health.v1.Health/Check")
    + _AUTHORITY
    + _text(b"probe")
    + _NAMED_TYPE
    + _text(b"application/grpc")
    + _NEW_NAME
    + _text(b"te")
    + _text(b"trailers")
)
CALL: Final = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(_SETTINGS, 0, 0)
    + _frame(_HEADERS, _END_HEADERS, _STREAM, _HEADER_BLOCK)
    + _frame(_DATA, _END_STREAM, _STREAM, bytes(5))
)


def serving(
    address: str, timeout_s: float = TIMEOUT_S, tls: "ssl.SSLContext | None" = None
) -> bool:
    """Whether the service at host:port says SERVING. Raises `OSError`, for no answer too."""
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        raise OSError("it is not HOST:PORT")
    host = host.strip("[]")
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, int(port)), timeout_s))
        if tls is not None:
            secured = tls.wrap_socket(connection, server_hostname=host)
            connection = stack.enter_context(secured)
        connection.settimeout(timeout_s)
        connection.sendall(CALL)
        while True:
            kind, flags, stream, payload = _read_frame(connection)
            if kind == _SETTINGS and not flags & _ACK:
                connection.sendall(_frame(_SETTINGS, _ACK, 0))
            elif kind == _DATA and stream == _STREAM and payload:
                return payload == SERVING
            elif kind in (_RST_STREAM, _GOAWAY) or (stream == _STREAM and flags & _END_STREAM):
                return False


def _read_frame(connection: socket.socket) -> tuple[int, int, int, bytes]:
    """(kind, flags, stream, payload)"""
    head = _read(connection, _FRAME_HEAD_BYTES)
    size_bytes = int.from_bytes(head[:3], "big")
    if size_bytes > ANSWER_BYTES_MAX:
        raise OSError("what answers is no HTTP/2")
    return head[3], head[4], int.from_bytes(head[5:], "big"), _read(connection, size_bytes)


def _read(connection: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        more = connection.recv(size_bytes - len(data))
        if not more:
            raise OSError("the connection was closed")
        data += more
    return data


def context(
    authority: str | None = None, certificate: str | None = None, key: str | None = None
) -> "ssl.SSLContext":
    """PEM files. Without an authority the server's certificate is not checked: nothing that is
    secret is said. Raises `OSError`."""
    import ssl

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority is None:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    else:
        made.load_verify_locations(authority)
    if certificate is not None:
        made.load_cert_chain(certificate, key)
    return made


def _tls(options: list[str]) -> "ssl.SSLContext | None":
    """Raises `OSError`, `ValueError` for an option that there is not."""
    if not options:
        return None
    words = [part for option in options for part in option.split("=", 1) if option != "--tls"]
    given = dict(zip(words[::2], words[1::2], strict=True))
    files = [given.pop(name, None) for name in ("--tls-ca", "--tls-cert", "--tls-key")]
    if given:
        raise ValueError(f"no such option: {', '.join(given)}")
    made = context(*files)
    made.set_alpn_protocols(["h2"])
    return made


def main() -> int:
    address = sys.argv[1]
    try:
        well = serving(address, tls=_tls(sys.argv[2:]))
    except (OSError, ValueError) as failed:
        print(f"{address} does not answer: {failed}", file=sys.stderr)
        return 3
    if not well:
        print(f"{address} is not serving", file=sys.stderr)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
