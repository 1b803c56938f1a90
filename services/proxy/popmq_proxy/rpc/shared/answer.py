"""Answers that are encoded already, ready to leave in one piece."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from apache.rocketmq.v2 import definition_pb2 as v2


async def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a server-streaming RPC."""

    code: int
    """The status the client gets, for the metrics."""
    responses: list[bytes]
    """Encoded responses in order."""
    undo: Callable[[], Awaitable[None]] = _nothing
    """For a client that went before all of it had left: what it was given is taken back."""


class Encoded(NamedTuple):
    """Of a unary RPC; to a front it is what a protobuf message is."""

    status: v2.Status
    data: bytes

    def SerializeToString(self) -> bytes:
        return self.data
