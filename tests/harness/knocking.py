"""What a port says to whoever comes: in plaintext, over TLS, with this or that certificate."""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from ssl import SSLContext
from typing import NamedTuple

from harness.authority import Authority

from popmq_cli.cluster.probe import CALL, context
from popmq_common.link.frames import encode_frame
from popmq_common.link.link_secret import NONCE_BYTES
from popmq_internal.v1 import link_pb2 as link

_HELLO = link.Frame(hello=link.Hello(nonce=bytes(NONCE_BYTES)))
WORDS = (CALL, b"GET /metrics HTTP/1.0\r\n\r\n", encode_frame(_HELLO))
"""What each port is asked: gRPC's health, a page, and the link's greeting."""
PATIENCE_S = 10.0
TLS_ALERT = b"\x15\x03"
"""How TLS says no to who speaks something else."""


class Listener(NamedTuple):
    """A row of /proc/net/tcp or tcp6 that waits for connections."""

    port: int
    inode: int
    is_local: bool
    """It is on a loopback address, as Docker's own DNS in a container."""


def listeners(table: str) -> Iterator[Listener]:
    """`table`: one of those files, or both."""
    for line in table.splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[3] == "0A":
            address, _, port = fields[1].partition(":")
            is_local = len(address) == 8 and address.endswith("7F")
            yield Listener(int(port, 16), int(fields[9]), is_local)


def listening_ports(pid: int) -> set[int]:
    """Of a process on this machine."""
    links = (os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir())
    own = {int(link[8:-1]) for link in links if link.startswith("socket:[")}
    tables = "".join(Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return {one.port for one in listeners(tables) if one.inode in own}


class Comer(NamedTuple):
    """Who knocks."""

    what: str
    tls: SSLContext | None


def with_certificate(tls: Path, name: str) -> Comer:
    """`tls`: a folder of popmq tls init."""
    return _comer(f"the certificate of {name}", tls / f"{name}.pem", tls / f"{name}.key")


def strangers(folder: Path) -> list[Comer]:
    """Those whom nobody knows; `folder` takes the certificate of an authority of their own."""
    foreign = Authority(folder, "stranger").signed("operator", hosts=())
    return [
        Comer("plaintext", None),
        _comer("TLS without a certificate"),
        _comer("TLS with a stranger's certificate", *foreign),
    ]


def answers(host: str, port: int, comer: Comer) -> bool:
    """Whether one of `WORDS` gets an answer. Raises `OSError` when nobody listens."""
    return any(_answer(host, port, words, comer.tls) for words in WORDS)


def those_answered(host: str, port: int, comers: Iterable[Comer]) -> list[str]:
    return [comer.what for comer in comers if answers(host, port, comer)]


def _answer(host: str, port: int, words: bytes, tls: SSLContext | None) -> bytes:
    """Empty: the connection was closed, or there was silence."""
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, port), PATIENCE_S))
        try:
            if tls is not None:
                connection = stack.enter_context(tls.wrap_socket(connection))
            connection.sendall(words)
            said = connection.recv(4096)
        except OSError:  # of TLS, too
            return b""
    return b"" if said.startswith(TLS_ALERT) else said


def _comer(what: str, certificate: Path | None = None, key: Path | None = None) -> Comer:
    """It does not check whom it reaches: what is asked is whether it gets in."""
    files = [None if path is None else str(path) for path in (certificate, key)]
    made = context(None, *files)
    made.set_alpn_protocols(["h2", "http/1.1"])
    return Comer(what, made)
