"""SQL filters through both fronts: what the official suite asks, and what is said to nonsense."""

import pytest
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2

PRODUCTS = {
    "first": {"price": "10", "regionId": "hangzhou"},
    "second": {"price": "30", "regionId": "shanghai"},
    "third": {"price": "60"},
    "fourth": {},
}


def sql(expression: str) -> v2.FilterExpression:
    return v2.FilterExpression(type=v2.SQL, expression=expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("TRUE", ["first", "second", "third", "fourth"]),
        ("", ["first", "second", "third", "fourth"]),
        ("price>20", ["second", "third"]),
        ("(price BETWEEN 10 AND 100) AND regionId IS NOT NUll", ["first", "second"]),
        ("product = 'MQ'", []),
        ("TAGS = 'fourth' OR price = 60", ["third", "fourth"]),
    ],
)
async def test_what_an_sql_filter_lets_through(
    raw: Raw, expression: str, expected: list[str]
) -> None:
    first = await raw.receive("t")  # the group begins here
    assert first[0].status.code == v2.MESSAGE_NOT_FOUND
    for tag, named in PRODUCTS.items():
        await raw.send("t", tag.encode(), tag=tag, user_properties=named)
    found: set[str] = set()
    for _ in range(3):  # a poll with messages answers with what is there
        responses = await raw.receive("t", poll_ms=100, filter_expression=sql(expression))
        found |= {r.message.body.decode() for r in responses if r.HasField("message")}
    assert sorted(found) == sorted(expected)


async def test_an_illegal_expression_is_told_where_it_is_wrong(raw: Raw) -> None:
    await raw.send("t")
    responses = await raw.receive("t", filter_expression=sql("price > 20 AMD price < 40"))
    status = responses[0].status
    assert status.code == v2.ILLEGAL_FILTER_EXPRESSION
    assert "column 12: expected AND, OR" in status.message
    assert "found AMD" in status.message
