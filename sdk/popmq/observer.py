"""What a client tells of its work: hooks for traces and metrics. `popmq.otel` fills them.

client = Client("127.0.0.1:8081", instrumentation=OpenTelemetry())

A client without an instrumentation has no observer, and each place that would tell one looks at
that alone. Each hook is a block around the work, in the context of who asked for it. What a hook
raises is the caller's error: an observer that can fail catches its own.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self

from popmq.errors import PopMQClientError
from popmq.message import Message, ReceivedMessage
from popmq.send_receipt import SendReceipt

Settlement = Literal["ack", "nack", "reject", "extend"]
"""How a message that is held is settled, or held longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """Who does the work."""

    client_id: str
    addresses: tuple[str, ...]
    """host:port each, as the client was given them."""
    namespace: str


class Block(Protocol):
    """Around some work; what leaves it as an error is how the work ended."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Sends(Block, Protocol):
    """One call that sends."""

    @property
    def messages(self) -> Sequence[Message]:
        """To be sent in place of the caller's: consumers find in them where they come from."""

    def answered(self, results: Sequence[SendReceipt | PopMQClientError]) -> None:
        """Per message its receipt or what went wrong with it."""


class Receives(Block, Protocol):
    """One call that receives."""

    def found(self, messages: Sequence[ReceivedMessage]) -> None:
        """What the caller gets."""


class Processes(Block, Protocol):
    """One call of a handler."""

    def ended(self, error: BaseException | None) -> None:
        """With an error that does not leave the block, if it does not."""


class Observer(Protocol):
    """Of one client."""

    def send(
        self, topic: str, messages: Sequence[Message], *, transaction: bool = False
    ) -> Sends: ...

    def receive(self, topic: str, group: str) -> Receives: ...

    def process(self, messages: Sequence[ReceivedMessage]) -> Processes:
        """A handler has these, at least one, all of one topic and group."""

    def settle(self, message: ReceivedMessage, how: Settlement) -> Block: ...


class Instrumentation(Protocol):
    """What a client is given; one may serve several clients."""

    def observer(self, client: ClientFacts) -> Observer: ...


def observed(
    observer: Observer | None,
    messages: Sequence[ReceivedMessage],
    handle: Callable[[], Awaitable[None]],
) -> Callable[[], Awaitable[None]]:
    """A handler of these messages, told of if there is somebody to tell."""
    if observer is None:
        return handle

    async def told() -> None:
        with observer.process(messages):
            await handle()

    return told
