"""Typed bodies, with pydantic itself."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import BaseModel, Field, ValidationError

from popmq import Json, Model


class Line(BaseModel):
    item: str
    count: int = 1


class Order(BaseModel):
    number: str = Field(alias="order-number")
    price: Decimal
    placed: datetime
    lines: list[Line]
    note: str | None = None


ORDER = Order(
    **{"order-number": "7"},
    price=Decimal("30.10"),
    placed=datetime(2030, 1, 2, tzinfo=UTC),
    lines=[Line(item="tea"), Line(item="\N{SNOWMAN}", count=2)],
)


def test_a_model_comes_back_as_it_was() -> None:
    """With an alias, a nested model, and types that JSON does not have."""
    model = Model(Order)
    body = model.encode(ORDER)
    assert model.decode(body) == ORDER
    assert Json().decode(body)["order-number"] == "7"  # what others write and read


def test_a_body_of_another_kind_says_what_is_wrong() -> None:
    with pytest.raises(ValidationError, match="order-number"):
        Model(Order).decode(b'{"price": 3}')
    with pytest.raises(ValidationError, match="Invalid JSON"):
        Model(Order).decode(b"not JSON")
