"""A function → the handler of a subscription: its body is read, and layers are put around it.

middleware ( idempotence ( body → value ( the function ) ) )
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from popmq._core.parameters import is_async, wanted
from popmq.app.injection import filled_in, injected
from popmq.handle_once import Handle, Idempotence
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq.outcome import Reject
from popmq.serializer import Serializer

log = logging.getLogger("popmq.app.handlers")  # the name that applications configure
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", bound=Awaitable[None] | None)
Handler = Callable[[ReceivedMessage], Awaitable[None] | None]
Middleware = Callable[[ReceivedMessage, Handle], Awaitable[None]]
"""(message, call_next): `await call_next(message)` is the rest, which raises what the handler
raises."""
Layer = Callable[[Handle], Handle]


class TypedRegister(Protocol[T]):
    """What `App.handler` returns where the body becomes a value. What follows the message is filled
    in by FastDepends."""

    @overload
    def __call__(self, function: Callable[[T], R], /) -> Callable[[T], R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[T, ReceivedMessage, P], R], /
    ) -> Callable[Concatenate[T, ReceivedMessage, P], R]: ...


def handler_of(function: Callable[..., Any], serializer: Serializer[Any] | None) -> Handler:
    """What the function is called by, with its message alone. It has `async` if the function has.
    Raises `TypeError` for a function that could not be called."""
    has_serializer = serializer is not None
    wants = wanted(function, has_serializer=has_serializer, filled_in=filled_in(function))
    call = injected(function)
    if not wants.value:
        return call
    decode = serializer.decode if serializer is not None else bytes

    def arguments(message: ReceivedMessage) -> tuple[Any, ...]:
        try:
            value = decode(message.body)
        except Exception as wrong:
            raise Reject(f"its body cannot be read: {wrong}") from wrong
        return (value, message) if wants.message else (value,)

    if is_async(function):

        async def handle(message: ReceivedMessage) -> None:
            await call(*arguments(message))

        return handle

    def handle_in_thread(message: ReceivedMessage) -> Any:
        return call(*arguments(message))

    return handle_in_thread


def behind(middleware: Middleware) -> Layer:
    """A layer that has the middleware called."""

    def layer(call_next: Handle) -> Handle:
        async def handle(message: ReceivedMessage) -> None:
            await middleware(message, call_next)

        return handle

    return layer


def once(guard: Idempotence) -> Layer:
    """A layer that lets the first of each through."""

    def layer(call_next: Handle) -> Handle:
        async def handle(message: ReceivedMessage) -> None:
            if not await guard.run(message, call_next):
                more = fields(message)
                log.info("message %s is a duplicate, and is acked", message.message_id, extra=more)

        return handle

    return layer
