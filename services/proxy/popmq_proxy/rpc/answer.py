"""The whole answer of a server-streaming RPC, ready to leave in one piece."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


async def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    """The status the client gets, for the metrics."""
    responses: list[bytes]
    """Encoded responses in order."""
    undo: Callable[[], Awaitable[None]] = _nothing
    """For a client that went before all of it had left: what it was given is taken back."""
