"""What does a look through a queue show, and how far does it go?"""

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC

from popmq_broker.engine.inspect import peek as peek_module
from popmq_common.errors import BadRequest, IllegalFilter, TopicNotFound
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make(queues=1)
    for at in range(200):
        driver.send(str(at), "even" if at % 2 == 0 else "odd", more={"n": str(at)})
    return driver


def peek(driver: EngineDriver, **fields: object) -> link.PeekReply:
    given = {"topic": TOPIC, "count_max": 5, "scanned_max": 1_000, "body_bytes_max": 99, **fields}
    request = link.PeekMessages(**given)  # type: ignore[arg-type]
    return driver.call(peek_messages=request).peek_messages


def bodies(reply: link.PeekReply) -> list[int]:
    return [int(one.body) for one in reply.messages]


def sql(expression: str) -> dict[str, object]:
    return {"filter_kind": link.FILTER_KIND_SQL, "filter_expression": expression}


def tags(expression: str) -> dict[str, object]:
    return {"filter_kind": link.FILTER_KIND_TAG, "filter_expression": expression}


def test_a_look_goes_forwards_and_backwards(driver: EngineDriver) -> None:
    reply = peek(driver, offset=10)
    assert (bodies(reply), reply.next_offset, reply.more) == ([10, 11, 12, 13, 14], 15, True)
    reply = peek(driver, offset=10, backwards=True)
    assert (bodies(reply), reply.next_offset, reply.more) == ([10, 9, 8, 7, 6], 5, True)
    reply = peek(driver, offset=2, backwards=True)
    assert (bodies(reply), reply.next_offset, reply.more) == ([2, 1, 0], -1, False)
    reply = peek(driver, offset=198)
    assert (bodies(reply), reply.next_offset, reply.more) == ([198, 199], 200, False)
    assert bodies(peek(driver, offset=9_999, backwards=True)) == [199, 198, 197, 196, 195]
    assert bodies(peek(driver, offset=9_999)) == []


def test_a_look_takes_what_sql_says(driver: EngineDriver) -> None:
    reply = peek(driver, **sql("n BETWEEN 150 AND 153 OR TAGS = 'odd' AND n > 190"))
    assert bodies(reply) == [150, 151, 152, 153, 191]
    assert reply.scanned == 192
    reply = peek(driver, offset=199, backwards=True, **sql("n < 3"))
    assert (bodies(reply), reply.scanned, reply.more) == ([2, 1, 0], 200, False)


def test_a_look_takes_tags(driver: EngineDriver) -> None:
    assert bodies(peek(driver, **tags("odd"))) == [1, 3, 5, 7, 9]
    assert bodies(peek(driver, **tags("odd || even"))) == [0, 1, 2, 3, 4]


def test_a_look_is_bounded_and_goes_on(driver: EngineDriver) -> None:
    reply = peek(driver, scanned_max=70, **sql("n = 100"))
    assert (bodies(reply), reply.scanned, reply.next_offset, reply.more) == ([], 70, 70, True)
    reply = peek(driver, scanned_max=70, offset=reply.next_offset, **sql("n = 100"))
    assert bodies(reply) == [100]


def test_a_look_ends_when_it_takes_too_long(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peek_module, "SECONDS_MAX", 0.0)
    reply = peek(driver, **sql("n = 199"))
    assert (reply.scanned, reply.next_offset, reply.more) == (64, 64, True)


def test_bodies_are_cut(driver: EngineDriver) -> None:
    (one, *_) = peek(driver, offset=123, body_bytes_max=2).messages
    assert (one.body, one.body_bytes, one.offset) == (b"12", 3, 123)


def test_looking_moves_nobody(driver: EngineDriver) -> None:
    peek(driver)
    assert [one.body for one in driver.pop(count=2)] == [b"0", b"1"]
    assert bodies(peek(driver, count_max=1)) == [0]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic": "none"}, TopicNotFound),
        ({"topic": "rmq_sys_popmq_catalog", "system": True}, TopicNotFound),
        ({"topic": "rmq_sys_wheel_timer"}, TopicNotFound),
        ({"queue_id": 1}, BadRequest),
        ({"queue_id": -1}, BadRequest),
        ({"count_max": 0}, BadRequest),
        ({"count_max": 101}, BadRequest),
        ({"scanned_max": 10_001}, BadRequest),
        ({"scanned_max": 0}, BadRequest),
        ({"offset": -2}, BadRequest),
        ({"body_bytes_max": -1}, BadRequest),
        (sql("n ="), IllegalFilter),
        (tags("||"), IllegalFilter),
    ],
)
def test_what_cannot_be_looked_at_is_refused(
    driver: EngineDriver, fields: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        peek(driver, **fields)
