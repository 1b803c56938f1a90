"""What is remembered of a client's connection beyond its requests; known from its first one on."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

ADMITTED_MAX: Final = 64
"""Topics of a connection whose sends were looked at; beyond that it begins anew."""
COUNTED_MAX: Final = 1_024
"""Users and clients that one connection counts for; a layer-7 proxy may bring many. The first one
is forgotten first, until its next call."""


class AdmittedSend(NamedTuple):
    """A send that was allowed; one that has the same is allowed too."""

    table: object
    """Of users and limits, by which that was decided: the very same."""
    signature: tuple[bytes, bytes] | None
    metadata: Mapping[str, str]
    until_ms: int
    """When its signature ends; 0: with the table."""


class ClientConnection:
    """One connection of the HTTP/2 front."""

    __slots__ = ("admitted", "closed", "counted")

    def __init__(self) -> None:
        self.admitted: dict[bytes, AdmittedSend] = {}
        """By topic, as its clients write it."""
        self.counted: dict[str, Callable[[str], None]] = {}
        """Users and clients it counts for, the oldest first, and who is told that it does no more.
        """
        self.closed = False

    def admit(self, topic: bytes, send: AdmittedSend) -> None:
        if len(self.admitted) >= ADMITTED_MAX:
            self.admitted.clear()
        self.admitted[topic] = send

    def count_for(self, subject: str, uncount: Callable[[str], None]) -> None:
        if len(self.counted) >= COUNTED_MAX:
            oldest = next(iter(self.counted))
            self.counted.pop(oldest)(oldest)
        self.counted[subject] = uncount

    def close(self) -> None:
        self.closed = True
        self.admitted.clear()
        while self.counted:
            subject, uncount = self.counted.popitem()
            uncount(subject)
