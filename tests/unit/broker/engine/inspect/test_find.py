"""What a search shows: what could have been received, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC
from harness.proxy import ProxyDriver

from popmq_admin.v1 import admin_pb2 as admin
from popmq_broker.engine.inspect import find as find_module
from popmq_broker.store.store import Draft
from popmq_common.errors import BadRequest, BrokerNotFound, NoIndex, PopMQError, TopicNotFound
from popmq_common.records import hosts
from popmq_common.records.record import SysFlag
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make()
    return driver


def put(driver: EngineDriver, body: str, keys: str = "k", **fields: Any) -> None:
    properties = f"UNIQ_KEY\x01id-{body}\x02KEYS\x01{keys}\x02".encode()
    record = link.OutgoingRecord(
        body=body.encode(),
        properties=properties,
        born_timestamp_ms=1,
        born_host=b"\x7f\0\0\1\0\0\0\1",
        **fields,
    )
    send = link.Send(topic=TOPIC, queue_id=0, records=[record])
    driver.call(send=send)


def find(driver: EngineDriver, key: str = "k", **fields: Any) -> list[str]:
    request = link.FindMessages(
        **{"topic": TOPIC, "key": key, "count_max": 64, "body_bytes_max": 100, **fields}
    )
    reply = driver.call(find_messages=request).found_messages
    return [message.body.decode() for message in reply.messages]


def test_newest_first_by_key_and_by_id(driver: EngineDriver) -> None:
    for body in ("a", "b", "c"):
        put(driver, body, "k same-" + body)
        driver.clock.advance(1_000)
    assert find(driver) == ["c", "b", "a"]
    assert find(driver, "same-b") == ["b"]
    assert find(driver, "id-a") == ["a"]
    assert find(driver, "id-a", id_only=True) == ["a"]
    assert find(driver, "same-b", id_only=True) == []
    assert find(driver, count_max=2) == ["c", "b"]


def test_a_key_is_all_of_a_word(driver: EngineDriver) -> None:
    put(driver, "a", "order-17 order-170")
    assert find(driver, "order-17") == ["a"]
    for wrong in ("order-1", "order", "order-17 order-170", "ORDER-17"):
        assert find(driver, wrong) == []


def test_keys_with_one_hash_are_told_apart(driver: EngineDriver) -> None:
    put(driver, "a", "Aa")
    put(driver, "b", "BB")
    assert (find(driver, "Aa"), find(driver, "BB")) == (["a"], ["b"])


def test_times_are_exact_to_the_millisecond(driver: EngineDriver) -> None:
    start_ms = driver.clock.now_ms()
    for body in ("a", "b", "c"):
        put(driver, body)
        driver.clock.advance(1)
    assert find(driver, from_ms=start_ms + 1, until_ms=start_ms + 1) == ["b"]
    assert find(driver, from_ms=start_ms + 1) == ["c", "b"]
    assert find(driver, until_ms=start_ms) == ["a"]
    assert find(driver, from_ms=start_ms + 3) == []


def test_half_messages_are_not_shown(driver: EngineDriver) -> None:
    async def append() -> None:
        store = driver.broker.state.runtime.store
        whole = Draft(TOPIC, 0, b"x", b"KEYS\x01k\x02", 0, 0, 0, 1, hosts.LOCAL)
        flags = (0, int(SysFlag.PREPARED), int(SysFlag.ROLLBACK))
        drafts = [whole._replace(sys_flag=flag) for flag in flags]
        await store.durable(store.append(drafts, 1)[-1].end_offset)

    driver.run(append())
    assert find(driver) == ["x"]


def test_what_a_deleted_topic_held_is_not_shown(driver: EngineDriver) -> None:
    put(driver, "old")
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    with pytest.raises(TopicNotFound):
        find(driver)
    driver.make()
    put(driver, "new")
    assert find(driver) == ["new"]
    place = link.GetMessage(topic=TOPIC, queue_id=0, offset=0)
    assert not driver.call(get_message=place).found_messages.messages


def test_a_message_by_its_place(driver: EngineDriver) -> None:
    put(driver, "a")
    place = link.GetMessage(topic=TOPIC, queue_id=0, offset=0)
    (found,) = driver.call(get_message=place).found_messages.messages
    assert (found.body, found.properties["KEYS"]) == (b"a", "k")
    for queue_id, offset in ((0, 1), (1, 0), (7, 0), (0, -1), (-1, 0)):
        place = link.GetMessage(topic=TOPIC, queue_id=queue_id, offset=offset)
        assert not driver.call(get_message=place).found_messages.messages


def test_topics_of_the_system_only_when_asked_for(driver: EngineDriver) -> None:
    put(driver, "a")
    driver.pop(1, 1_000)
    driver.advance(2_000)
    retry = "%RETRY%g_t"
    with pytest.raises(TopicNotFound):
        find(driver, topic=retry)
    assert find(driver, topic=retry, system=True) == ["a"]


@pytest.mark.parametrize("fields", [{"count_max": 0}, {"count_max": 65}, {"key": ""}])
def test_searches_that_cannot_be(driver: EngineDriver, fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        find(driver, **fields)


def test_a_search_that_takes_too_long_says_so(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_module, "SEARCH_SECONDS_MAX", -1.0)
    monkeypatch.setattr(find_module, "TURN_ENTRIES", 2)
    for body in ("a", "b", "c"):
        put(driver, body)
    request = link.FindMessages(topic=TOPIC, key="k", count_max=64)
    reply = driver.call(find_messages=request).found_messages
    assert (len(reply.messages), reply.incomplete) == (1, True)


def test_an_answer_has_room_for_so_many_bodies(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_module, "BODY_BYTES_MAX", 10)
    for body in ("123456", "12345678901", "1234"):
        put(driver, body)
    request = link.FindMessages(topic=TOPIC, key="k", count_max=64, body_bytes_max=100)
    reply = driver.call(find_messages=request).found_messages
    assert ([one.body for one in reply.messages], reply.incomplete) == ([b"1234"], True)


def test_without_an_index(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, index=False)
    driver.make()
    put(driver, "a")
    with pytest.raises(NoIndex, match="POPMQ_BROKER_INDEX"):
        find(driver)
    place = link.GetMessage(topic=TOPIC, queue_id=0, offset=0)
    assert driver.call(get_message=place).found_messages.messages
    driver.close()
    assert not (driver.data_dir / "index").exists()


class TestSeveralBrokers:
    @pytest.fixture
    def drivers(self, tmp_path: Path) -> Iterator[list[EngineDriver]]:
        first = EngineDriver(tmp_path / "a", name="broker-a")
        second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
        for driver in (first, second):
            driver.make()
        yield [first, second]
        second.close()
        first.close()

    def find(self, proxy: ProxyDriver, **fields: Any) -> list[tuple[str, str]]:
        request = admin.FindMessagesRequest(topic=TOPIC, **{"key": "k", **fields})
        response = proxy.run_method(proxy.methods.find.find, request)
        return [(one.broker, one.body.decode()) for one in response.messages]

    def test_all_are_asked_and_the_newest_come_first(self, drivers: list[EngineDriver]) -> None:
        for i, driver in enumerate([*drivers, *drivers]):
            put(driver, f"m{i}")
            driver.clock.advance(5)
        proxy = ProxyDriver(*drivers)
        expected = [("broker-b", "m3"), ("broker-a", "m2"), ("broker-b", "m1"), ("broker-a", "m0")]
        assert self.find(proxy) == expected
        assert self.find(proxy, count_max=3) == expected[:3]

    def test_a_place_is_one_of_each_broker(self, drivers: list[EngineDriver]) -> None:
        put(drivers[0], "a")
        put(drivers[1], "b")
        proxy = ProxyDriver(*drivers)
        request = admin.GetMessageRequest(topic=TOPIC)
        found = proxy.run_method(proxy.methods.find.get, request).messages
        assert {one.broker: one.body for one in found} == {"broker-a": b"a", "broker-b": b"b"}
        request.broker = "broker-b"
        (one,) = proxy.run_method(proxy.methods.find.get, request).messages
        assert one.body == b"b"
        request.broker = "broker-z"
        with pytest.raises(BrokerNotFound, match="broker-z; the brokers are broker-a, broker-b"):
            proxy.run_method(proxy.methods.find.get, request)

    def test_a_broker_without_the_topic_is_passed_over(self, drivers: list[EngineDriver]) -> None:
        put(drivers[0], "a")
        drivers[1].call(delete_topic=link.DeleteTopic(topic=TOPIC))
        proxy = ProxyDriver(*drivers)
        assert self.find(proxy) == [("broker-a", "a")]
        drivers[0].call(delete_topic=link.DeleteTopic(topic=TOPIC))
        with pytest.raises(TopicNotFound):
            self.find(proxy)

    def test_half_an_answer_is_none(self, drivers: list[EngineDriver]) -> None:
        """One broker cannot search: what the other finds would look like all there is."""
        put(drivers[0], "a")
        drivers[1].broker.state.runtime.store.index = None
        with pytest.raises(PopMQError, match="writes no index"):
            self.find(ProxyDriver(*drivers))
