"""Typed bodies: what an application sends and handles ⇄ bytes.

producer = client.producer(serializer=Model(Order))     # send takes an Order
@app.handler("orders", "billing", serializer=Model(Order))
async def handle(order: Order, message: ReceivedMessage) -> None: ...
"""

import json
from typing import Any, Generic, Protocol, Self, TypeVar

T = TypeVar("T")


class Serializer(Protocol[T]):
    """What it raises for a body, a handler's message is rejected with."""

    def encode(self, value: T) -> bytes: ...
    def decode(self, body: bytes) -> T: ...


class Json:
    """Whatever `json` knows, in UTF-8 without spaces."""

    def encode(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def decode(self, body: bytes) -> Any:
        return json.loads(body)


class JsonModel(Protocol):
    """What pydantic's `BaseModel` has; pydantic itself is not needed."""

    def model_dump_json(self, *, by_alias: bool) -> str: ...
    @classmethod
    def model_validate_json(cls, json_data: str | bytes) -> Self: ...


M = TypeVar("M", bound=JsonModel)


class Model(Generic[M]):
    """A pydantic model, or any class with its two methods, as JSON. Fields that have an alias are
    written under it: by default that is all that pydantic reads."""

    def __init__(self, kind: type[M]) -> None:
        self._kind = kind

    def encode(self, value: M) -> bytes:
        return value.model_dump_json(by_alias=True).encode()

    def decode(self, body: bytes) -> M:
        return self._kind.model_validate_json(body)
