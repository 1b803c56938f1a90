"""Nacks, retries and dead letters: traps that other servers fell into, by their numbers."""

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import Popped
from harness.names import GROUP, TOPIC

from popmq_common.errors import BadRequest, GroupNotFound
from popmq_common.records import hosts, properties
from popmq_internal.v1 import link_pb2 as link

DONE = link.LEASE_OUTCOME_DONE
UNCOUNTED, FATAL = link.NACK_KIND_UNCOUNTED, link.NACK_KIND_FATAL


def send_with_everything(driver: EngineDriver) -> None:
    named = {
        "UNIQ_KEY": "id-1",
        "TAGS": "red",
        "KEYS": "k1 k2",
        "__BORNHOST": "1.2.3.4",
        "TRACE_CONTEXT": "00-1",
        "colour": "blue",
    }
    record = link.OutgoingRecord(
        body=b"\x1f\x8bpacked",
        properties=properties.encode(named),
        sys_flag=1,
        flag=4711,
        born_timestamp_ms=7,
        born_host=hosts.encode("1.2.3.4", 5),
    )
    driver.call(send=link.Send(topic=TOPIC, queue_id=-1, records=[record]))


def one(driver: EngineDriver) -> Popped:
    (message,) = driver.pop()
    return message


def users(message: Popped) -> dict[str, str]:
    return {
        name: value
        for name, value in properties.decode(message.properties).items()
        if name not in ("1ST_POP_TIME", "__RETRY_REASON", "__UNCOUNTED", "__CRC32#")
    }


@pytest.mark.parametrize("how", ["time is over", "counted", "uncounted"])
def test_t08_a_revived_copy_equals_its_original_but_for_the_retry(
    driver: EngineDriver, how: str
) -> None:
    driver.make()
    send_with_everything(driver)
    first = one(driver)
    if how != "time is over":
        kind = link.NACK_KIND_COUNTED if how == "counted" else UNCOUNTED
        assert driver.nack(first.handle, kind=kind, delay_ms=0, reason="why") == [DONE]
    driver.advance(10_000)
    again = one(driver)
    same = ["body", "flag", "born_timestamp_ms", "born_host", "store_host", "prepared_offset"]
    for name in same:
        assert getattr(again.record, name) == getattr(first.record, name), name
    assert again.record.sys_flag == first.record.sys_flag
    assert users(again) == users(first)
    assert again.delivery_attempt == (1 if how == "uncounted" else 2)


def test_t14_renewing_a_lease_neither_copies_nor_counts(driver: EngineDriver) -> None:
    driver.make(max_attempts=2)
    driver.send("a")
    handle = one(driver).handle
    for _ in range(20):
        driver.advance(9_000)
        handle = driver.change(handle, 10_000).handle
    topics = driver.call(describe=link.Describe()).describe.topics
    assert not [topic.config.name for topic in topics if topic.config.name.startswith("%")]
    driver.advance(10_000)
    assert one(driver).delivery_attempt == 2


def test_t34_a_lone_retry_does_not_starve_under_a_busy_topic(driver: EngineDriver) -> None:
    """One consumer that takes one message at a time, while the topic never runs empty."""
    driver.make(queues=4)
    driver.send("late")
    driver.nack(one(driver).handle, delay_ms=0)
    for number in range(8):
        driver.send(f"busy{number}")
    driver.advance(0)
    for pops in range(1, 100):
        driver.send(f"more{pops}")
        (message,) = driver.pop(1)
        driver.ack(message.handle)
        if message.body == b"late":
            assert pops <= 5
            return
    raise AssertionError("the retry never came")


def test_t36_a_dead_letter_is_there_at_once(driver: EngineDriver) -> None:
    """Nothing of the message delays it, not the policy and not a delivery time it once had."""
    driver.make(max_attempts=1, retry_policy=link.RetryPolicy(delays_ms=[7_200_000]))
    driver.send("a", more={"DELAY": "3", "TIMER_DELIVER_MS": "9" * 13, "POP_CK": "old"})
    assert driver.nack(one(driver).handle, reason="no") == [DONE]
    (letter,) = driver.dead_letters(whole=True).letters
    assert letter.stored_ms == driver.clock.now_ms()
    assert not {"DELAY", "TIMER_DELIVER_MS", "POP_CK"} & letter.properties.keys()
    group = link.GroupConfig(name="u", max_attempts=3, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=group))
    pop = link.Pop(group="u", topic="%DLQ%g", batch_size=1, invisible_ms=1_000)
    assert len(driver.call(pop=pop).pop.messages) == 1


@pytest.mark.parametrize("kind", [link.NACK_KIND_COUNTED, UNCOUNTED, FATAL])
def test_t39_a_handle_is_void_once_its_message_was_given_back_or_up(
    driver: EngineDriver, kind: "link.NackKind.ValueType"
) -> None:
    driver.make()
    driver.send("a")
    handle = one(driver).handle
    assert driver.nack(handle, kind=kind, delay_ms=5_000) == [DONE]
    given_up = kind == FATAL
    void = link.LEASE_OUTCOME_EXPIRED if given_up else link.LEASE_OUTCOME_SUPERSEDED
    assert driver.ack(handle) == [void]
    assert driver.change(handle, 1_000).outcome == void
    assert driver.nack(handle) == [void]


@pytest.mark.parametrize("restart", [False, True])
def test_t55_a_poison_message_of_a_fifo_group_is_given_up_and_the_others_go_on(
    driver: EngineDriver, restart: bool
) -> None:
    driver.make(queues=1, max_attempts=3, fifo=True)
    for body in ("poison", "next"):
        driver.send(body, message_group="a")
    attempts = 0
    while (message := driver.pop(1)[0]).body == b"poison":
        attempts += 1
        assert attempts <= 3
        assert driver.nack(message.handle, delay_ms=1_000, reason=f"try {attempts}") == [DONE]
        if restart:
            driver.restart()
        driver.advance(1_000)
    assert attempts == 3
    (letter,) = driver.dead_letters().letters
    assert (letter.attempts, letter.reason) == (3, "try 3")


def test_t43_a_nack_of_one_second_comes_after_one_second(driver: EngineDriver) -> None:
    driver.make()
    driver.send("a")
    driver.nack(one(driver).handle, delay_ms=1_000)
    driver.advance(999)
    assert driver.pop() == []
    driver.advance(1)
    assert one(driver).delivery_attempt == 2


@pytest.mark.parametrize(
    ("kind", "delay_ms", "text"),
    [(0, 0, "none of them"), (9, 0, "none of them"), (1, -2, "-2 ms"), (1, 10**9, "delay")],
)
def test_a_nack_that_makes_no_sense_is_refused(
    driver: EngineDriver, kind: int, delay_ms: int, text: str
) -> None:
    driver.make()
    driver.send("a")
    handle = one(driver).handle
    with pytest.raises(BadRequest, match=text):
        driver.nack(handle, kind=kind, delay_ms=delay_ms)
    assert driver.ack(handle) == [DONE]


def test_a_policy_that_makes_no_sense_is_refused(driver: EngineDriver) -> None:
    with pytest.raises(BadRequest, match="retry delay"):
        driver.make(retry_policy=link.RetryPolicy(delays_ms=[-1]))


def test_several_handles_of_one_nack_are_judged_one_by_one(driver: EngineDriver) -> None:
    driver.make()
    for body in "ab":
        driver.send(body)
    first, second = driver.pop()
    driver.ack(second.handle)
    outcomes = driver.nack(first.handle, second.handle, first.handle, kind=UNCOUNTED, delay_ms=0)
    acked, superseded = link.LEASE_OUTCOME_ALREADY_ACKED, link.LEASE_OUTCOME_SUPERSEDED
    assert outcomes == [DONE, acked, superseded]


def test_a_nack_of_a_deleted_group_is_refused(driver: EngineDriver) -> None:
    driver.make()
    driver.send("a")
    handle = one(driver).handle
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    with pytest.raises(GroupNotFound):
        driver.nack(handle)
