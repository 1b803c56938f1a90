"""What keeps a handler from doing a thing twice; `popmq.idempotence` has some."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from popmq.message import ReceivedMessage

Handle = Callable[[ReceivedMessage], Awaitable[None]]


class Idempotence(Protocol):
    """What `@app.handler(…, idempotent=…)` takes."""

    async def start(self, retention_s: float | None) -> None:
        """Before the first message. `retention_s`: how long the server keeps messages, if it is
        known."""

    async def run(self, message: ReceivedMessage, handle: Handle) -> bool:
        """True: it was handled now. False: it is a duplicate, and is acked. Raises `Retry` while
        another consumer handles the same, and whatever the handler raises."""
