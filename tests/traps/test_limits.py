"""T60: the largest message that is taken can be delivered, retried, given up and sent again.

Everything is at its limit at once: the body, the properties, the message id, the message group,
the names of topic and group, the reason of each failure. One more of any is refused, with units.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import IllegalGroup
from popmq_common.records import properties as names
from popmq_common.records.names import GIVEN_UP_TOPIC
from popmq_internal.v1 import link_pb2 as link

BODY = b"x" * (4 << 20)
TOPIC, GROUP = "t" * 127, "g" * 120
REASON = "\N{PILE OF POO}" * 1_000  # 4 bytes each
LINE = "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 31 + "x"
MESSAGE_ID = "I" * 255
KEYS = ["k" * 100, "l" * 100]
TAG = "a" * 1_000


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path, segment_bytes=48 << 20)
    yield driver
    driver.close()


@pytest.fixture
def proxy(driver: EngineDriver) -> ProxyDriver:
    return ProxyDriver(driver)


def user_properties(total_bytes: int) -> dict[str, str]:
    """128 of them, names and values together as large as said."""
    found = {f"name-{i:03d}": "" for i in range(128)}
    room = total_bytes - 8 * len(found)
    found["name-000"] = "v" * (room - 100)
    found["name-001"] = "w" * 100
    assert sum(len(name) + len(value) for name, value in found.items()) == total_bytes
    return found


FULL_PROPERTIES = user_properties(16 * 1024 - len(TAG) - 200)


def send(proxy: ProxyDriver, body: bytes = BODY, **changes: Any) -> v2.Status:
    properties = changes.pop("properties", FULL_PROPERTIES)
    system = {"message_id": MESSAGE_ID, "keys": KEYS, "tag": TAG, **changes}
    return proxy.send(body, v2.Resource(name=TOPIC), properties, **system)


def make(driver: EngineDriver, *, fifo: bool) -> None:
    topic = link.TopicConfig(name=TOPIC, read_queues=1, write_queues=1, message_type="MIXED")
    driver.call(put_topic=link.PutTopic(topic=topic))
    group = link.GroupConfig(name=GROUP, max_attempts=2, consume_from="FIRST", fifo=fifo)
    driver.call(put_group=link.PutGroup(group=group))


def receive(proxy: ProxyDriver) -> v2.Message:
    (message,) = proxy.receive(
        group=v2.Resource(name=GROUP), message_queue=v2.MessageQueue(topic=v2.Resource(name=TOPIC))
    )
    assert message.body == BODY
    system = message.system_properties
    assert dict(message.user_properties) == FULL_PROPERTIES
    assert (system.message_id, system.tag, list(system.keys)) == (MESSAGE_ID, TAG, KEYS)
    return message


def fail(driver: EngineDriver, message: v2.Message) -> None:
    nack = link.Nack(
        group=GROUP,
        topic=TOPIC,
        handles=[message.system_properties.receipt_handle],
        kind=link.NACK_KIND_COUNTED,
        delay_ms=0,
        reason=REASON,
    )
    (outcome,) = driver.call(nack=nack).nack.outcomes
    assert outcome == link.LEASE_OUTCOME_DONE
    driver.advance(1_000)


def largest_trace(proxy: ProxyDriver, **system: Any) -> int:
    """The length of the largest trace context that is taken beside everything else."""
    low, high = 0, names.SENT_BYTES_MAX
    while low < high:
        middle = (low + high + 1) // 2
        if send(proxy, b"x", trace_context="c" * middle, **system).code == v2.OK:
            low = middle
        else:
            high = middle - 1
    return low


@pytest.mark.parametrize("system", [{}, {"message_group": LINE}], ids=["NORMAL", "FIFO"])
def test_t60_the_largest_message_lives_through_everything(
    driver: EngineDriver, proxy: ProxyDriver, system: dict[str, Any]
) -> None:
    make(driver, fifo=False)
    size = largest_trace(proxy, **system)
    too_much = send(proxy, b"x", trace_context="c" * (size + 1), **system)
    assert too_much.code == v2.MESSAGE_PROPERTIES_TOO_LARGE
    assert f"the limit is {names.SENT_BYTES_MAX}" in too_much.message
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    proxy.upstream.routes.forget(TOPIC)
    make(driver, fifo=False)
    assert send(proxy, trace_context="c" * size, **system).code == v2.OK
    for life in range(2):
        fail(driver, receive(proxy))
        fail(driver, receive(proxy))
        asked = link.ListDeadLetters(group=GROUP, count_max=10)
        letters = driver.call(list_dead_letters=asked).list_dead_letters.letters
        assert [letter.reason for letter in letters] == [REASON] * (life + 1)
        redriven = driver.call(redrive=link.Redrive(group=GROUP, count_max=10)).redrive
        assert redriven.sent == 1
    receive(proxy)


def limit_of(driver: EngineDriver, proxy: ProxyDriver, system: Callable[[], dict[str, Any]]) -> int:
    """The largest trace context beside such a message; the topic is empty again afterwards."""
    make(driver, fifo=False)
    size = largest_trace(proxy, **system())
    assert send(proxy, b"x", trace_context="c" * (size + 1), **system()).code == (
        v2.MESSAGE_PROPERTIES_TOO_LARGE
    )
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    proxy.upstream.routes.forget(TOPIC)
    make(driver, fifo=False)
    return size


def test_t60_delayed_written_again_recalled_and_delivered(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, segment_bytes=48 << 20, timer_roll_ms=5_000)
    proxy = ProxyDriver(driver)

    def later() -> dict[str, Any]:
        return {"delivery_timestamp": {"seconds": driver.clock.now_ms() // 1_000 + 60}}

    size = limit_of(driver, proxy, later)
    for recalled in (True, False):
        system = later()
        assert send(proxy, trace_context="c" * size, **system).code == v2.OK
        if recalled:
            due_ms = system["delivery_timestamp"]["seconds"] * 1_000
            driver.call(recall=link.Recall(topic=TOPIC, message_id=MESSAGE_ID, due_ms=due_ms))
            driver.clock.advance(1_000)
    rolled = driver.broker.timer_keeper.roll
    for _ in range(3):
        driver.advance(6_000)
        before = driver.broker.state.runtime.store.log_end
        driver.run(_once(rolled))
        assert driver.broker.state.runtime.store.log_end > before + len(BODY)
    driver.crash(random.Random(1))
    driver.advance(60_000)
    fail(driver, receive(proxy))
    fail(driver, receive(proxy))
    driver.close()


async def _once(work: Callable[[], object]) -> None:
    work()


@pytest.mark.parametrize("commit", [True, False])
def test_t60_a_transaction_written_again_and_settled_or_given_up(
    tmp_path: Path, commit: bool
) -> None:
    driver = EngineDriver(
        tmp_path, segment_bytes=5 << 20, half_move_ms=1_000, transaction_age_ms_max=60_000
    )
    proxy = ProxyDriver(driver)

    def half() -> dict[str, Any]:
        return {"message_type": v2.TRANSACTION}

    size = limit_of(driver, proxy, half)
    assert send(proxy, trace_context="c" * size, **half()).code == v2.OK
    assert send(proxy).code == v2.OK  # the first one lies in an old file
    store = driver.broker.state.runtime.store
    before = store.log_end
    driver.advance(10_000)
    assert store.log_end > before + len(BODY), "it is not written again"
    receive(proxy)
    if commit:
        (check,) = driver.poll_checks(TOPIC)
        end = link.EndTransaction(
            topic=TOPIC, half_offset=check.half_offset, log_offset=check.log_offset, commit=True
        )
        driver.call(end_transaction=end)
        fail(driver, receive(proxy))
        fail(driver, receive(proxy))
    else:
        driver.advance(120_000)
        assert driver.broker.state.runtime.store.max_offset(GIVEN_UP_TOPIC, 0) == 1
    driver.close()


def test_t60_in_order(driver: EngineDriver, proxy: ProxyDriver) -> None:
    make(driver, fifo=True)
    assert send(proxy, message_group=LINE).code == v2.OK
    fail(driver, receive(proxy))
    fail(driver, receive(proxy))
    asked = link.ListDeadLetters(group=GROUP, count_max=10)
    assert len(driver.call(list_dead_letters=asked).list_dead_letters.letters) == 1


def test_t60_it_is_found_again(driver: EngineDriver, proxy: ProxyDriver) -> None:
    make(driver, fifo=False)
    assert send(proxy).code == v2.OK
    for key in (MESSAGE_ID, *KEYS):
        find = link.FindMessages(topic=TOPIC, key=key, count_max=1, body_bytes_max=1 << 30)
        (found,) = driver.call(find_messages=find).found_messages.messages
        assert found.body == BODY


ONE_MORE: list[tuple[str, dict[str, Any], int, str]] = [
    ("body", {"body": BODY + b"x"}, v2.MESSAGE_BODY_TOO_LARGE, "4194305 bytes"),
    (
        "property bytes",
        {"properties": user_properties(16 * 1024 - len(TAG) - 199)},
        v2.MESSAGE_PROPERTIES_TOO_LARGE,
        "16385 bytes, the limit is 16384",
    ),
    (
        "properties",
        {"properties": {f"n{i}": "" for i in range(129)}},
        v2.MESSAGE_PROPERTIES_TOO_LARGE,
        "129 user properties, the limit is 128",
    ),
    ("tag", {"tag": TAG + "a"}, v2.MESSAGE_PROPERTIES_TOO_LARGE, "16385 bytes"),
    ("keys", {"keys": [*KEYS, "k"]}, v2.MESSAGE_PROPERTIES_TOO_LARGE, "16385 bytes"),
    ("id", {"message_id": MESSAGE_ID + "I"}, v2.ILLEGAL_MESSAGE_ID, "256 bytes, the limit is 255"),
    (
        "message group",
        {"message_group": LINE + "x"},
        v2.ILLEGAL_MESSAGE_GROUP,
        "64 bytes, the limit is 63",
    ),
]


@pytest.mark.parametrize(
    ("changes", "code", "text"), [one[1:] for one in ONE_MORE], ids=[one[0] for one in ONE_MORE]
)
def test_t60_one_more_is_refused_with_its_unit(
    driver: EngineDriver, proxy: ProxyDriver, changes: dict[str, Any], code: int, text: str
) -> None:
    make(driver, fifo=False)
    refused = send(proxy, **changes)
    assert (refused.code, text in refused.message) == (code, True), refused.message


def test_t60_many_small_keys_count_with_what_is_between_them(
    driver: EngineDriver, proxy: ProxyDriver
) -> None:
    """Keys are stored with a blank between: 14,000 of one byte are 27,999 bytes."""
    make(driver, fifo=False)
    status = send(proxy, properties={}, keys=["k"] * 14_000, tag="")
    assert status.code == v2.MESSAGE_PROPERTIES_TOO_LARGE
    assert send(proxy, properties={}, keys=["k"] * 10_000, tag="").code == v2.OK
    driver.restart()


def test_names_of_topics_and_groups_at_their_limit(
    driver: EngineDriver, proxy: ProxyDriver
) -> None:
    """The retry topic of both has 255 characters, which is what a folder's name can have."""
    make(driver, fifo=False)
    assert send(proxy, b"x").code == v2.OK
    too_long = v2.Resource(name=TOPIC + "t")
    refused = proxy.send(b"x", too_long)
    assert (refused.code, "127 characters" in refused.message) == (v2.ILLEGAL_TOPIC, True)
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name=GROUP + "g"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name=TOPIC)),
    )
    (answer,) = proxy.receive_as_is(request)
    assert answer.status.code == v2.ILLEGAL_CONSUMER_GROUP
    assert "120 characters" in answer.status.message
    wanted = admin.CreateGroupRequest(group=admin.Group(name=GROUP + "g"))
    with pytest.raises(IllegalGroup, match="120 characters"):
        proxy.admin("CreateGroup", wanted)
