"""FIFO groups: becoming one, ceasing to be one, and what a restart remembers."""

from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body
from harness.names import GROUP, TOPIC

from popmq_common.errors import BadRequest, TooManyInFlight
from popmq_internal.v1 import link_pb2 as link


def bodies(driver: EngineDriver, count: int = 32) -> list[str]:
    """Pop and ack."""
    messages = driver.pop(count)
    driver.ack(*(message.handle for message in messages))
    return [message.body.decode() for message in messages]


def consume_in_order(driver: EngineDriver, *, fifo: bool) -> None:
    group = link.GroupConfig(name=GROUP, fifo=fifo, max_attempts=3, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=group))


def lag(driver: EngineDriver) -> int:
    status = driver.call(describe=link.Describe(group=GROUP)).describe.groups[0]
    return sum(queue.max_offset - queue.committed_offset for queue in status.queues)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_a_group_changes_over_without_losing_or_repeating(
    driver: EngineDriver, fifo: bool, restart: bool
) -> None:
    driver.make(queues=2, fifo=fifo)
    for i in range(6):
        driver.send(f"m{i}", message_group="ab"[i % 2])
    first = bodies(driver, 3)
    consume_in_order(driver, fifo=not fifo)
    if restart:
        driver.restart()
    assert sorted(first + bodies(driver)) == [f"m{i}" for i in range(6)]
    assert lag(driver) == 0


@pytest.mark.parametrize("fifo", [False, True])
def test_a_group_does_not_change_over_while_it_holds_messages(
    driver: EngineDriver, fifo: bool
) -> None:
    driver.make(fifo=fifo)
    driver.send("m0", message_group="a")
    driver.send("m1", message_group="b")
    assert len(driver.pop(1)) == 1
    with pytest.raises(BadRequest, match="messages in flight or to be retried"):
        consume_in_order(driver, fifo=not fifo)
    driver.advance(20_000)
    with pytest.raises(BadRequest, match="messages in flight or to be retried"):
        consume_in_order(driver, fifo=not fifo)
    assert len(bodies(driver)) == 2
    consume_in_order(driver, fifo=not fifo)


def test_what_was_acked_out_of_order_does_not_come_again_after_a_restart(
    driver: EngineDriver,
) -> None:
    driver.make(queues=1, fifo=True)
    for name in "abc":
        driver.send(f"{name}0", message_group=name)
        driver.send(f"{name}1", message_group=name)
    held = {message.body.decode(): message.handle for message in driver.pop()}
    driver.ack(*(held[name] for name in ("b0", "b1", "c1")))
    for _ in range(3):
        driver.restart()
    assert lag(driver) == 6
    driver.ack(held["a0"], held["a1"])
    assert lag(driver) == 2, "all before c0 is settled"
    driver.advance(20_000)
    driver.restart()
    driver.advance(0)
    (again,) = driver.pop()
    assert (again.body, again.delivery_attempt) == (b"c0", 2)


def test_an_attempt_id_has_a_bound(driver: EngineDriver) -> None:
    driver.make(fifo=True)
    with pytest.raises(BadRequest, match="256"):
        driver.call(**pop_body(1, 1_000, attempt_id="x" * 257))


def test_blocked_messages_count_as_lag(driver: EngineDriver) -> None:
    driver.make(queues=1, fifo=True)
    for i in range(4):
        driver.send(f"a{i}", message_group="a")
    driver.send("b0", message_group="b")
    driver.pop(1)
    driver.pop(1)
    (queue,) = (
        queue
        for key, queue in driver.broker.state.lease_state.table.queues.items()
        if key.topic == TOPIC
    )
    assert queue.fifo_queue is not None
    assert (queue.fifo_queue.ready_count(), queue.fifo_queue.blocked_count()) == (0, 3)


def test_an_ack_is_known_again_though_a_refused_pop_had_looked_ahead(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, in_flight_max=2)
    driver.make(queues=2, fifo=True)
    for body, message_group in (("a1", "a"), ("c1", "c"), ("b1", "b")):
        driver.send(body, message_group=message_group)
    held = {message.body: message for message in driver.pop()}
    driver.send("b2", message_group="b")
    with pytest.raises(TooManyInFlight):
        driver.pop()
    driver.ack(held[b"b1"].handle)
    (b2,) = driver.pop(1)
    assert driver.ack(b2.handle) == [link.LEASE_OUTCOME_DONE]
    assert driver.ack(b2.handle) == [link.LEASE_OUTCOME_ALREADY_ACKED]
    assert (
        sum(queue.committed for queue in driver.broker.state.lease_state.table.queues.values()) == 2
    )
    driver.close()


def test_t51_a_lost_answer_is_repeated_while_others_ask_too(driver: EngineDriver) -> None:
    """RocketMQ: the repeated receive lost a race, got nothing, and its attempt id was given up."""
    driver.make(queues=1, fifo=True)
    for i in range(3):
        driver.send(f"a{i}", message_group="a")
    first = driver.pop(2, attempt_id="x")
    assert driver.pop(2, attempt_id="y") == []
    for _ in range(2):
        again = driver.pop(2, attempt_id="x")
        assert [(one.body, one.delivery_attempt) for one in again] == [(b"a0", 1), (b"a1", 1)]
    assert link.LEASE_OUTCOME_DONE not in driver.ack(*(one.handle for one in first))
    driver.ack(*(one.handle for one in again))
    assert [one.body for one in driver.pop(2, attempt_id="y")] == [b"a2"]
