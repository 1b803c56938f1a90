"""Connections that write as fast as they may, and begin again when they are sent away."""

import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

CHUNK_BYTES = 1 << 18
Writes = Iterator[bytes]
"""What a connection writes, piece by piece; behind the last one it stays open and is silent."""


@dataclass(eq=False)
class Member:
    socket: socket.socket
    writes: Writes
    rest: memoryview = field(default_factory=lambda: memoryview(b""))


class Crowd:
    def __init__(
        self, endpoint: str, size: int, writes: Callable[[], Writes], *, reads: bool = True
    ) -> None:
        """`reads`: what comes is read and forgotten; else it stays where it is."""
        host, _, port = endpoint.rpartition(":")
        self._address = (host, int(port))
        self._make_writes = writes
        self._reads = selectors.EVENT_READ if reads else 0
        self._selector = selectors.DefaultSelector()
        self._silent: list[Member] = []
        """Those that have written all and do not read."""
        self.written_bytes = 0
        self.sent_away_count = 0
        for _ in range(size):
            self._join()

    def run(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            missing = self.sent_away_count
            for key, mask in self._selector.select(0.05):
                if mask & selectors.EVENT_READ and not self._read(key.data):
                    continue
                if mask & selectors.EVENT_WRITE:
                    self._write(key.data)
            for _ in range(self.sent_away_count - missing):
                self._join()

    def _join(self) -> None:
        member = Member(socket.create_connection(self._address, 20), self._make_writes())
        member.socket.setblocking(False)
        self._selector.register(member.socket, selectors.EVENT_WRITE | self._reads, member)

    def _leave(self, member: Member) -> None:
        self.sent_away_count += 1
        self._selector.unregister(member.socket)
        member.socket.close()

    def _read(self, member: Member) -> bool:
        """False: it is closed."""
        with suppress(BlockingIOError):
            try:
                data = member.socket.recv(CHUNK_BYTES)
            except ConnectionError:
                data = b""
            if not data:
                self._leave(member)
                return False
        return True

    def _write(self, member: Member) -> None:
        if not member.rest:
            member.rest = memoryview(next(member.writes, b""))
        if not member.rest:
            self._be_silent(member)
            return
        with suppress(BlockingIOError):
            try:
                sent = member.socket.send(member.rest)
            except ConnectionError:
                self._leave(member)
                return
            self.written_bytes += sent
            member.rest = member.rest[sent:]

    def _be_silent(self, member: Member) -> None:
        if self._reads:
            self._selector.modify(member.socket, self._reads, member)
        else:
            self._selector.unregister(member.socket)
            self._silent.append(member)
