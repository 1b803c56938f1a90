"""Is every message that nobody acked delivered again?

The traps are known losses of RocketMQ's pop: a checkpoint taken for an old one, an offset moved on
before the work was done, tables cleaned of what was in use, handles that ack what others hold.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import DiskFull
from popmq_common.records import properties, receipt
from popmq_common.records.names import retry_topic
from popmq_internal.v1 import link_pb2 as link

DONE = link.LEASE_OUTCOME_DONE
DAY_MS = 24 * 3_600_000


def bodies(driver: EngineDriver, count: int = 32) -> list[str]:
    """Pop and ack all there is."""
    found = []
    while messages := driver.pop(count):
        driver.ack(*(message.handle for message in messages))
        found += [message.body.decode() for message in messages]
    return sorted(found)


@pytest.mark.parametrize("seed", range(5))
def test_t01_every_message_popped_while_it_was_produced_comes_again(
    driver: EngineDriver, seed: int
) -> None:
    """Also those stored later than their pop says, and over a crash."""
    rng = random.Random(seed)
    driver.make()
    sent = [f"m{number}" for number in range(40)]
    popped = set()
    for body in sent:
        driver.send(body)
        driver.clock.set_back(rng.randrange(500))  # as if the pop had been stamped before
        popped |= {message.body.decode() for message in driver.pop(rng.randint(1, 4), 10_000)}
        driver.clock.advance(rng.randrange(500))
    if seed % 2:
        driver.crash(rng)
    assert popped == set(sent)
    driver.advance(20_000)
    assert bodies(driver) == sorted(sent)


@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("restart", [False, True])
def test_t02_a_read_that_fails_while_reviving_loses_nothing(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch, nth: int, restart: bool
) -> None:
    """The error ends the process; what was not revived must be found again by the next one."""
    driver.make(queues=1)
    for body in "abcd":
        driver.send(body)
    driver.pop(invisible_ms=10_000)
    with monkeypatch.context() as patched:
        patched.setattr(
            driver.broker.state.runtime.store, "read", _failing(driver, "read", nth, OSError())
        )
        with pytest.raises(OSError):  # noqa: PT011 - any
            driver.advance(10_000)
    if restart:
        driver.restart()  # writes how far the revive topic is needed
    else:
        driver.run(driver.broker.offsets.write())
        driver.crash(random.Random(nth))
    driver.advance(10_000)
    assert bodies(driver) == list("abcd")


async def _make_retry_topic(driver: EngineDriver) -> None:
    """So that each append is one of a queue's copies."""
    driver.broker.topics.ensure_system_copy_target(retry_topic(GROUP, TOPIC))


@pytest.mark.parametrize("nth", range(3))
def test_t03_what_a_failed_revival_had_begun_stays_until_it_is_done(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """The disk is full at the nth queue; the others are done, and nothing is done twice."""
    driver.make(queues=3)
    sent = [f"m{number}" for number in range(9)]
    for body in sent:
        driver.send(body)
    driver.pop(invisible_ms=10_000)
    driver.run(_make_retry_topic(driver))
    with monkeypatch.context() as patched:
        store = driver.broker.state.runtime.store
        patched.setattr(store, "append", _failing(driver, "append", nth, DiskFull(path="/data")))
        driver.advance(10_000)
    driver.run(driver.broker.state.runtime.store.durable(driver.broker.state.runtime.store.log_end))
    before = {message.body.decode(): message for message in driver.pop(invisible_ms=60_000)}
    assert len(before) == 3 * nth
    driver.advance(30_000)
    after = driver.pop()
    assert sorted([*before, *(message.body.decode() for message in after)]) == sent
    assert {message.delivery_attempt for message in [*before.values(), *after]} == {2}


@pytest.mark.parametrize("seed", range(5))
def test_t03_a_power_cut_while_reviving_loses_nothing(driver: EngineDriver, seed: int) -> None:
    driver.make(queues=3)
    sent = [f"m{number}" for number in range(9)]
    for body in sent:
        driver.send(body)
    driver.pop(invisible_ms=10_000)
    driver.hold_disk()
    driver.clock.advance(10_000)
    driver.loop.create_task(driver.broker.revive.revive_due())
    driver.start(describe=link.Describe())  # lets it run until it waits for the disk
    driver.crash(random.Random(seed))
    driver.advance(10_000)
    assert bodies(driver) == sent


def _failing(driver: EngineDriver, method: str, nth: int, error: Exception) -> Callable[..., Any]:
    """The store's method, which fails from its nth call on."""
    work = getattr(driver.broker.state.runtime.store, method)
    calls = 0

    def failing(*values: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > nth:
            raise error
        return work(*values, **named)

    return failing


@pytest.mark.parametrize("start", ["FIRST", "LAST"])
def test_t04_a_topic_with_a_message_a_day_delivers_each(driver: EngineDriver, start: str) -> None:
    driver.make(queues=3, start=start)
    client = ProxyDriver(driver)
    assert client.receive() == []
    for day in range(7):
        driver.advance(DAY_MS)
        driver.run(driver.broker.offsets.write())
        if day % 3 == 2:
            driver.restart()
        client.upstream.sessions.seen("somebody else", driver.clock.now_ms())
        assert client.send(f"day {day}".encode()).code == v2.OK
        driver.advance(DAY_MS)
        (message,) = client.receive()
        assert message.body == f"day {day}".encode()
        assert [status.code for status in client.ack(message)] == [v2.OK]


INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    field=st.sampled_from(["queue_offset", "queue_id", "pop_time_ms", "generation", "retry_mark"]),
    value=INT64
    | st.integers(-4, 4)
    | st.builds(lambda i, k: i + (k << 32), st.integers(0, 3), INT64),
)
def test_t05_a_forged_handle_acks_nothing(driver: EngineDriver, field: str, value: int) -> None:
    """Even one whose checksum is right."""
    if TOPIC not in driver.broker.state.catalog_state.topics:
        driver.make(queues=1)
        for body in "abcd":
            driver.send(body)
        driver.pop(2, invisible_ms=10_000_000)  # two are held, two are not
    (queue,) = driver.broker.state.lease_state.table.queues.values()
    held = queue.leases[0].grant
    true = receipt.Receipt(
        held.start_offset, held.pop_time_ms, held.invisible_ms, held.revive_queue, 0, "broker-a",
        queue_id=0, queue_offset=0, log_offset=0, generation=held.generation,
    )  # fmt: skip
    forged = receipt.Receipt(**{**true._asdict(), field: value})
    if forged == true or (field == "queue_offset" and value == 1):
        return  # a message that is held
    (outcome,) = driver.ack(receipt.encode(forged, GROUP, TOPIC))
    assert outcome != DONE
    assert sorted(queue.leases) == [0, 1]


def test_t06_retries_and_first_deliveries_of_one_receive_are_told_apart(
    driver: EngineDriver, proxy: ProxyDriver
) -> None:
    for number in range(6):
        proxy.send(b"old %d" % number, tag=f"tag-{number}")
    assert len(proxy.receive()) == 6
    driver.advance(10_000)
    for number in range(6):
        proxy.send(b"new %d" % number, tag=f"tag-{number}")
    messages = proxy.receive()
    assert len(messages) == 12
    for message in messages:
        system = message.system_properties
        kind, name = message.body.decode().split()
        assert system.message_id == f"id-{message.body!r}"
        assert system.tag == f"tag-{name}"
        assert system.delivery_attempt == (2 if kind == "old" else 1)
        assert message.topic.name == TOPIC
    acked = [message for message in messages if message.body[-1:] in b"024"]
    assert {status.code for status in proxy.ack(*acked)} == {v2.OK}
    driver.advance(10_000)
    again = {message.body for message in proxy.receive()}
    assert again == {message.body for message in messages} - {message.body for message in acked}


def test_t07_what_is_gone_from_the_log_is_not_replaced_by_its_neighbour(
    driver: EngineDriver,
) -> None:
    """The oldest file of the log is deleted while its messages are held."""
    driver.make(queues=1)
    for number in range(8):
        driver.send(str(number) * 1_000)  # four to a file, with their ids
    held = driver.pop(6, invisible_ms=10_000)
    log = driver.broker.state.runtime.store._commit_log
    gone = [message for message in held if message.receipt.log_offset < log.segment_bytes]
    assert 0 < len(gone) < len(held)
    log.start = log.segment_bytes  # as when that file is deleted
    driver.advance(10_000)
    kept = [message.body for message in held if message not in gone]
    found = driver.pop()
    assert sorted(message.body[:1] for message in found) == [b"%d" % n for n in range(len(gone), 8)]
    assert [message.body for message in found if message.delivery_attempt == 2] == kept


@pytest.mark.parametrize("name", sorted(properties.RESERVED))
def test_t09_a_reserved_property_is_refused_on_send(proxy: ProxyDriver, name: str) -> None:
    refused = proxy.send(b"x", properties={name: "0 1 2"})
    assert refused.code == v2.ILLEGAL_MESSAGE_PROPERTY_KEY
    assert name in refused.message


def test_t09_what_was_received_can_be_sent_on_as_it_is(
    driver: EngineDriver, proxy: ProxyDriver
) -> None:
    proxy.send(b"x", properties={"colour": "blue"}, keys=["k"], message_group="line")
    for _ in range(3):
        (message,) = proxy.receive()
        assert dict(message.user_properties) == {"colour": "blue"}
        driver.advance(10_000)
    message = proxy.receive()[0]
    assert proxy.send(b"y", properties=dict(message.user_properties)).code == v2.OK
    (forwarded,) = proxy.receive()
    assert forwarded.body == b"y"
    assert forwarded.system_properties.delivery_attempt == 1
    assert {status.code for status in proxy.ack(message, forwarded)} == {v2.OK}
