"""Which delayed messages does a broker list, and in which order?"""

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC

from popmq_broker.engine.timers import timer_list as it
from popmq_common.errors import BadRequest, TopicNotFound
from popmq_internal.v1 import link_pb2 as link

S = 1_000
OTHER = "other"


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make()
    config = link.TopicConfig(name=OTHER, read_queues=1, write_queues=1, message_type="MIXED")
    driver.call(put_topic=link.PutTopic(topic=config))
    return driver


def later(driver: EngineDriver, body: str, delay_ms: int, topic: str = TOPIC) -> None:
    due_ms = driver.clock.now_ms() + delay_ms
    properties = f"UNIQ_KEY\x01id-{body}\x02KEYS\x01k1 k2\x02TAGS\x01t\x02"
    properties += f"TIMER_DELIVER_MS\x01{due_ms}\x02"
    record = link.OutgoingRecord(
        body=body.encode(),
        properties=properties.encode(),
        born_timestamp_ms=1,
        born_host=b"\x7f\0\0\1\0\0\0\1",
    )
    send = link.Send(topic=topic, queue_id=0, records=[record], kind=link.SEND_KIND_DELAY)
    driver.call(send=send)


def listed(
    driver: EngineDriver,
    topic: str = TOPIC,
    count: int = 200,
    after: link.DelayedPlace | None = None,
) -> link.ListDelayedReply:
    request = link.ListDelayed(topic=topic, count_max=count, after=after)
    return driver.call(list_delayed=request).list_delayed


def ids(reply: link.ListDelayedReply) -> list[str]:
    return [one.message_id.removeprefix("id-") for one in reply.messages]


def test_those_that_are_due_first_come_first(driver: EngineDriver) -> None:
    now_ms = driver.clock.now_ms()
    for body, delay_ms in [("b", 3_600 * S), ("c", 48 * 3_600 * S), ("a", 5 * S)]:
        later(driver, body, delay_ms)
    reply = listed(driver)
    assert ids(reply) == ["a", "b", "c"]
    first = reply.messages[0]
    assert (first.topic, first.place.due_ms, first.keys) == (TOPIC, now_ms + 5 * S, "k1 k2")
    assert (first.tag, first.body_bytes, first.stored_ms) == ("t", 1, now_ms)
    assert (reply.more, reply.waiting, reply.scanned, reply.by_level) == (False, 3, 3, 0)


def test_only_messages_of_the_topic_are_listed(driver: EngineDriver) -> None:
    later(driver, "a", 5 * S)
    later(driver, "b", 6 * S, OTHER)
    assert ids(listed(driver)) == ["a"]
    assert ids(listed(driver, OTHER)) == ["b"]
    assert ids(listed(driver, "")) == ["a", "b"]
    driver.call(delete_topic=link.DeleteTopic(topic=OTHER))
    assert ids(listed(driver, "")) == ["a"]
    with pytest.raises(TopicNotFound):
        listed(driver, OTHER)


def test_pages_follow_each_other(driver: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also over stretches in which nothing is of the topic."""
    monkeypatch.setattr(it, "SCANNED_MAX", 4)
    for at in range(30):
        later(driver, str(at), (at + 1) * S, TOPIC if at % 7 == 0 else OTHER)
    found: list[str] = []
    after = None
    for _ in range(40):
        reply = listed(driver, count=2, after=after)
        assert reply.scanned <= 4
        found += ids(reply)
        if not reply.more:
            break
        after = reply.scanned_to
    assert found == ["0", "7", "14", "21", "28"]


def test_what_was_delivered_or_recalled_is_not_listed(driver: EngineDriver) -> None:
    for body, delay_ms in [("a", 1 * S), ("b", 60 * S), ("c", 120 * S)]:
        later(driver, body, delay_ms)
    due_ms = listed(driver).messages[1].place.due_ms
    driver.call(recall=link.Recall(topic=TOPIC, message_id="id-b", due_ms=due_ms))
    assert ids(listed(driver)) == ["a", "c"]
    driver.clock.advance(2 * S)
    driver.deliver_due()
    assert ids(listed(driver)) == ["c"]


def test_a_list_is_the_same_after_a_restart(driver: EngineDriver) -> None:
    for body, delay_ms in [("a", 10 * S), ("b", 60 * S)]:
        later(driver, body, delay_ms)
    driver.restart()
    assert ids(listed(driver)) == ["a", "b"]


@pytest.mark.parametrize("count", [0, -1, it.COUNT_MAX + 1])
def test_a_count_that_is_no_count_is_refused(driver: EngineDriver, count: int) -> None:
    with pytest.raises(BadRequest, match="1 to 200"):
        listed(driver, count=count)
