"""Connections that write as fast as they may, and begin again when they are sent away.

Each first sets its attack up, and goes on when the server has answered that: so an attack is what
its name says, and not what is left of it when the server has closed the connection before.
"""

import selectors
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from front.hostile import frames as f

CHUNK_BYTES = 1 << 18
STEP_S = 0.005
LAST_BYTES = 80
UNREAD_BYTES = 4_096
"""Taken by the system for a connection that does not read; else that would be megabytes."""
Writes = Iterator[bytes]
"""What a connection writes, piece by piece; behind the last one it stays open and is silent."""
Seen = Counter[int]
"""Frames that came, by their kind."""
WAITS = ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError
GONE = ConnectionError, ssl.SSLError


@dataclass(frozen=True)
class Plan:
    begins: Callable[[], Writes]
    then: Callable[[], Writes]
    ready: Callable[[Seen], bool]
    """Whether what came says that the beginning was worked on."""
    every_s: float = 0.0
    """Between two pieces of `then`."""
    calls_max: int = 0
    """Each piece of `then` is a call; so many of them are not answered. 0: that does not matter."""
    reads: bool = True
    """What comes is read and forgotten; else it stays where it is."""


@dataclass(eq=False)
class Member:
    socket: socket.socket
    writes: Writes
    begun: bool = False
    """All of the beginning has been written."""
    ready: bool = False
    due_s: float = 0.0
    rest: memoryview = field(default_factory=lambda: memoryview(b""))
    held: bytes = b""
    seen: Seen = field(default_factory=Counter)
    calls: int = 0
    last: bytes = b""
    """Of what came."""


class Crowd:
    def __init__(self, endpoint: str, size: int, plan: Plan, *, tls: bool) -> None:
        host, _, port = endpoint.rpartition(":")
        self._address = (host, int(port))
        self._plan = plan
        self._tls = unverified() if tls else None
        self._reads = selectors.EVENT_READ if plan.reads else 0
        self._selector = selectors.DefaultSelector()
        self._resting: list[Member] = []
        """They wait for their time to write, or for the server."""
        self.written_bytes = 0
        self.ready_count = 0
        self.cut_early_count = 0
        """Closed before they were ready."""
        self.sent_away_count = 0
        self.reasons: Counter[str] = Counter()
        """What was told to those that were sent away."""
        self._joined_count = 0
        self._size = size

    def run(self, seconds: float, begin_s: float) -> None:
        """So long from when all are ready; they have `begin_s` for that."""
        until_s = time.monotonic() + begin_s
        while time.monotonic() < until_s and self.ready_count < self._size:
            self._step()
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._step()

    def _step(self) -> None:
        gone = self.cut_early_count + self.sent_away_count
        while self._joined_count < self._size + gone:
            self._join()
        now_s = time.monotonic()
        for member in [one for one in self._resting if one.due_s <= now_s]:
            if member.ready or not member.begun:
                self._resting.remove(member)
                self._watch(member, selectors.EVENT_WRITE | self._reads)
        for key, mask in self._selector.select(STEP_S):
            if mask & selectors.EVENT_READ and not self._read(key.data):
                continue
            if mask & selectors.EVENT_WRITE:
                self._write(key.data)

    def _join(self) -> None:
        self._joined_count += 1
        made = socket.socket()
        made.settimeout(20)
        if not self._plan.reads:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES)
        made.connect(self._address)
        if self._tls is not None:
            made = self._tls.wrap_socket(made)
        made.setblocking(False)
        member = Member(made, self._plan.begins())
        self._selector.register(made, selectors.EVENT_WRITE | self._reads, member)

    def _watch(self, member: Member, events: int) -> None:
        registered = member.socket in self._selector.get_map()
        if events and registered:
            self._selector.modify(member.socket, events, member)
        elif events:
            self._selector.register(member.socket, events, member)
        elif registered:
            self._selector.unregister(member.socket)

    def _leave(self, member: Member) -> None:
        if member.ready:
            self.sent_away_count += 1
        else:
            self.cut_early_count += 1
        self._watch(member, 0)
        self.reasons[member.last.rpartition(f.CALM)[2].decode("latin-1")] += 1
        member.socket.close()
        member.due_s = float("inf")

    def _read(self, member: Member) -> bool:
        """False: it is closed."""
        with suppress(*WAITS):
            while True:
                try:
                    data = member.socket.recv(CHUNK_BYTES)
                except WAITS:
                    raise
                except GONE:
                    data = b""
                if not data:
                    self._leave(member)
                    return False
                member.last = data[-LAST_BYTES:]
                if not member.ready or self._plan.calls_max:
                    self._look(member, data)
        return True

    def _look(self, member: Member, data: bytes) -> None:
        """At what came: is the member ready, and which calls are over?"""
        found, read = f.whole_frames(member.held + data)
        member.held = (member.held + data)[read:]
        for kind, flags, _, _ in found:
            if kind != f.PING or flags & f.ACK:
                member.seen[kind] += 1
            if member.ready:
                ends = kind in (f.HEADERS, f.DATA) and flags & f.END_STREAM
                member.calls -= bool(ends or kind == f.RST_STREAM)
        if member.ready:
            member.due_s = 0.0
        elif member.begun and self._plan.ready(member.seen):
            self._be_ready(member)

    def _be_ready(self, member: Member) -> None:
        member.ready = True
        member.writes = self._plan.then()
        self.ready_count += 1

    def _write(self, member: Member) -> None:
        if not member.rest:
            calls_max = self._plan.calls_max if member.ready else 0
            if calls_max and member.calls >= calls_max:
                member.due_s = float("inf")
                self._sleep(member)
                return
            member.calls += bool(calls_max)
            piece = next(member.writes, None)
            if piece is None:
                self._rest(member)
                return
            member.rest = memoryview(piece)
        with suppress(*WAITS):
            try:
                sent = member.socket.send(member.rest)
            except WAITS:
                raise
            except GONE:
                self._leave(member)
                return
            self.written_bytes += sent
            member.rest = member.rest[sent:]
        if member.ready and not member.rest and self._plan.every_s:
            member.due_s = max(member.due_s, time.monotonic() - 0.1) + self._plan.every_s
            self._sleep(member)

    def _rest(self, member: Member) -> None:
        """All is written: of the beginning, or all there is."""
        if member.ready:
            member.due_s = float("inf")
        elif not self._plan.reads or self._plan.ready(member.seen):
            self._be_ready(member)
            return
        member.begun = True
        self._sleep(member)

    def _sleep(self, member: Member) -> None:
        self._watch(member, self._reads)
        self._resting.append(member)


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context
