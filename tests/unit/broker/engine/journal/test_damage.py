"""A message that cannot be read: the others go on, nothing is silent, and what was only mislaid is
delivered once its queue is repaired."""

import random
import time
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.damaging import damage_entry, damage_log, entry
from harness.names import GROUP, TOPIC
from structlog.testing import capture_logs

from popmq_broker import rebuild
from popmq_broker.core.store.queue_entry import QueueEntry, encode
from popmq_broker.metrics import BrokerCollector
from popmq_common.records.record import decode
from popmq_common.units import LogOffset
from popmq_internal.v1 import link_pb2 as link

COUNT = 120
LOST = [0, 1, 17, 63, 64, 65, 100, COUNT - 2]
"""The last entry is looked at by each start, which then makes all again."""


def filled(driver: EngineDriver, count: int = COUNT, **make: Any) -> EngineDriver:
    """A queue with messages of an earlier process."""
    driver.make(queues=1, **make)
    for i in range(count):
        driver.send(f"m{i}", tag="blue")
    driver.restart()
    return driver


def drained(driver: EngineDriver, **pop: Any) -> list[str]:
    """All that comes, in order; each is acked."""
    bodies = []
    while held := driver.pop(**pop):
        bodies += [one.body.decode() for one in held]
        driver.ack(*[one.handle for one in held])
    return bodies


def names(offsets: "list[int] | range") -> list[str]:
    return [f"m{i}" for i in offsets]


def rebuilt(driver: EngineDriver, topic: str = TOPIC, queue_id: int = 0) -> link.RebuildQueueReply:
    """The end of a rebuild of that queue while the broker runs."""
    ask = link.RebuildQueue(topic=topic, queue_id=queue_id, begin=True)
    for _ in range(10_000):  # each call is a turn of the loop, and the rebuild has its share
        reply = driver.call(rebuild_queue=ask).rebuild_queue
        if not reply.running:
            return reply
        ask.begin = False
        time.sleep(0.001)
    raise AssertionError("it does not end")


def wreck(driver: EngineDriver, kind: str, offset: int) -> None:
    """An entry that is gone, or points elsewhere, or hides its message from filters."""
    own = entry(driver.broker, TOPIC, 0, offset)
    other = entry(driver.broker, TOPIC, 0, offset + 1)
    data = {
        "zeros": bytes(20),
        "another message": encode(other),
        "tag code": encode(own._replace(tags_code=own.tags_code ^ 1)),
        "far away": encode(QueueEntry(LogOffset(1 << 60), 100, own.tags_code)),
        "huge": encode(own._replace(size_bytes=(1 << 31) - 1)),
        "before the log": encode(QueueEntry(LogOffset(-5), 100, own.tags_code)),
        "inside a record": encode(own._replace(log_offset=LogOffset(own.log_offset + 1))),
    }[kind]
    driver.broker.state.runtime.store._queues.check = None
    damage_entry(driver.data_dir, TOPIC, 0, offset, data)


KINDS = [
    "zeros",
    "another message",
    "tag code",
    "far away",
    "huge",
    "before the log",
    "inside a record",
]


@pytest.fixture
def wrecked(driver: EngineDriver, request: pytest.FixtureRequest) -> EngineDriver:
    filled(driver)
    kind = getattr(request, "param", "zeros")
    for offset in LOST:
        wreck(driver, kind, offset)
    driver.restart()
    return driver


@pytest.mark.parametrize("wrecked", KINDS, indirect=True)
@pytest.mark.parametrize("pop", [{}, {"expression": "blue"}, {"sql": "TRUE"}], ids=str)
def test_damaged_entries_hold_up_nothing_and_come_after_a_rebuild(
    wrecked: EngineDriver, pop: dict[str, Any]
) -> None:
    with capture_logs() as lines:
        assert drained(wrecked, **pop) == names([i for i in range(COUNT) if i not in LOST])
        assert drained(wrecked, **pop) == []
    told = [line for line in lines if line["event"] == "message.damaged"]
    assert sum(line["until"] - line["offset"] for line in told) == len(LOST)
    reply = rebuilt(wrecked)
    assert (reply.failure, reply.repaired, reply.unreadable) == ("", len(LOST), 0)
    assert sorted(drained(wrecked, **pop)) == sorted(names(LOST))
    wrecked.restart()
    assert drained(wrecked, **pop) == []
    assert rebuilt(wrecked).repaired == 0


@pytest.mark.parametrize("fifo", [False, True])
def test_one_damaged_queue_of_four_holds_up_none(driver: EngineDriver, *, fifo: bool) -> None:
    """What is after the damage in its queue comes, and all of the other queues; told once."""
    driver.make(queues=4, fifo=fifo)
    for i in range(COUNT):
        driver.call(**send_body(f"m{i}", message_group=f"g{i}", queue_id=i % 4))
    driver.restart()
    driver.broker.state.runtime.store._queues.check = None
    for offset in (0, 7, 8):
        damage_entry(driver.data_dir, TOPIC, 1, offset)
    driver.restart()
    lost = [1 + 4 * offset for offset in (0, 7, 8)]
    with capture_logs() as lines:
        assert sorted(drained(driver)) == sorted(names([i for i in range(COUNT) if i not in lost]))
    told = [line for line in lines if line["event"] == "message.damaged"]
    assert {line["queue_id"] for line in told} == {1}
    assert sum(line["until"] - line["offset"] for line in told) == len(lost)
    damaged = driver.call(inspect=link.Inspect()).inspect.damaged
    assert [(one.queue_id, one.from_offset, one.until_offset) for one in damaged] == [
        (1, 0, 1),
        (1, 7, 9),
    ]
    assert rebuilt(driver, queue_id=1).repaired == len(lost)
    found = drained(driver)
    if fifo:  # what came behind them in order has been handled
        letters = driver.dead_letters(whole=True).letters
        found = [letter.body.decode() for letter in letters]
    assert sorted(found) == sorted(names(lost))


def test_a_damaged_record_is_passed_and_told_for_good(driver: EngineDriver) -> None:
    filled(driver)
    damage_log(driver.data_dir, entry(driver.broker, TOPIC, 0, 40).log_offset + 60)
    driver.restart()
    rest = names([i for i in range(COUNT) if i != 40])
    assert drained(driver) == rest
    reply = rebuilt(driver)
    assert (reply.failure, reply.repaired, reply.unreadable) == ("", 0, 1)
    assert drained(driver) == []
    driver.restart()
    assert drained(driver) == []
    (place,) = driver.call(inspect=link.Inspect()).inspect.damaged
    assert (place.topic, place.queue_id, place.from_offset, place.until_offset) == (
        TOPIC,
        0,
        40,
        41,
    )
    (passed,) = driver.call(inspect=link.Inspect()).inspect.passed
    assert (passed.group, passed.count) == (GROUP, 1)


def test_no_crash_loses_what_was_passed(wrecked: EngineDriver) -> None:
    """What a group has gone over is known, or it has not gone over it."""
    rng = random.Random(7)
    got: set[str] = set()
    for _ in range(12):
        held = wrecked.pop(count=16)
        wrecked.ack(*[one.handle for one in held])
        got |= {one.body.decode() for one in held}
        wrecked.crash(rng)
    got |= set(drained(wrecked))
    assert got == set(names([i for i in range(COUNT) if i not in LOST]))
    rebuilt(wrecked)
    assert got | set(drained(wrecked)) == set(names(range(COUNT)))


def test_a_rebuild_of_a_stopped_broker_counts_too(wrecked: EngineDriver) -> None:
    drained(wrecked)
    wrecked.run(wrecked.broker.close())
    config = wrecked.broker.state.runtime.config
    wrecked.run(rebuild.rebuild(config, offsets=False))
    wrecked.broker = wrecked._open()
    wrecked.run(wrecked.broker.rebuilds.mend_known())
    assert sorted(drained(wrecked)) == sorted(names(LOST))
    assert not wrecked.call(inspect=link.Inspect()).inspect.damaged


def test_a_fifo_group_goes_on_and_finds_them_in_its_dead_letters(driver: EngineDriver) -> None:
    driver.make(queues=1, fifo=True)
    for i in range(COUNT):
        driver.send(f"m{i}", message_group=f"g{i % 3}")
    driver.restart()
    for offset in LOST:
        wreck(driver, "zeros", offset)
    driver.restart()
    assert sorted(drained(driver)) == sorted(names([i for i in range(COUNT) if i not in LOST]))
    assert rebuilt(driver).repaired == len(LOST)
    assert drained(driver) == []
    letters = driver.dead_letters(whole=True).letters
    assert sorted(letter.body.decode() for letter in letters) == sorted(names(LOST))
    assert "damaged" in letters[0].reason
    driver.restart()
    assert drained(driver) == []
    assert len(driver.dead_letters().letters) == len(LOST)


def pulled(driver: EngineDriver) -> list[str]:
    bodies: list[str] = []
    offset = 0
    while True:
        request = link.Pull(group=GROUP, topic=TOPIC, offset=offset, batch_size=32, client_id="c")
        reply = driver.call(pull=request).pull
        if reply.next_offset == offset:
            return bodies
        offset = reply.next_offset
        for data in reply.records:
            own = int.from_bytes(data[28:36])
            bodies.append(decode(data, where="", log_offset=own).body.decode())


def test_a_pull_goes_over_them(wrecked: EngineDriver) -> None:
    assert pulled(wrecked) == names([i for i in range(COUNT) if i not in LOST])
    (passed,) = wrecked.call(inspect=link.Inspect()).inspect.passed
    assert (passed.group, passed.count, passed.pulls) == (GROUP, len(LOST), True)
    rebuilt(wrecked)
    assert pulled(wrecked) == names(range(COUNT))


def test_a_record_that_is_damaged_while_it_is_held_ends_nothing_but_itself(
    driver: EngineDriver,
) -> None:
    filled(driver, 10)
    held = driver.pop()
    damage_log(driver.data_dir, held[3].receipt.log_offset + 60)
    driver.advance(20_000)
    driver.advance(20_000)
    again = drained(driver)
    assert sorted(again) == sorted(names([i for i in range(10) if i != 3]))
    (passed,) = driver.call(inspect=link.Inspect()).inspect.passed
    assert (passed.group, passed.count) == (GROUP, 1)


def test_the_same_in_a_fifo_group(driver: EngineDriver) -> None:
    driver.make(queues=1, fifo=True, max_attempts=2)
    for i in range(10):
        driver.send(f"m{i}", message_group=f"g{i}")
    driver.restart()
    held = driver.pop()
    damage_log(driver.data_dir, held[3].receipt.log_offset + 60)
    got: list[str] = []
    for _ in range(3):
        driver.advance(20_000)
        got += drained(driver)
    assert sorted(got) == sorted(names([i for i in range(10) if i != 3]))
    driver.restart()
    driver.advance(20_000)
    assert drained(driver) == []


def test_metrics_count_the_places_and_who_went_over_them(wrecked: EngineDriver) -> None:
    def figures() -> dict[str, float]:
        families = BrokerCollector(wrecked.broker).collect()
        chosen = [one for one in families if "damaged_messages" in one.name]
        return {one.name: sum(sample.value for sample in one.samples) for one in chosen}

    drained(wrecked)
    names_of = ("popmq_damaged_messages", "popmq_consumer_damaged_messages")
    assert figures() == dict.fromkeys(names_of, len(LOST))
    rebuilt(wrecked)
    assert not any(figures().values())


def test_a_reset_over_them_tries_them_again(wrecked: EngineDriver) -> None:
    drained(wrecked)
    rebuilt(wrecked)
    drained(wrecked)
    reset = link.ResetOffsets(group=GROUP, topic=TOPIC, at=link.OFFSET_AT_MIN)
    wrecked.call(reset_offsets=reset)
    assert drained(wrecked) == names(range(COUNT))


def test_who_looks_at_messages_goes_on(driver: EngineDriver) -> None:
    filled(driver)
    damage_log(driver.data_dir, entry(driver.broker, TOPIC, 0, 40).log_offset + 60)
    wreck(driver, "zeros", 50)
    driver.restart()
    ask = link.FindMessages(topic=TOPIC, key="id-m39", count_max=5, body_bytes_max=10)
    assert [one.offset for one in driver.call(find_messages=ask).found_messages.messages] == [39]
    explain = link.Explain(message_id="id-m41", topic=TOPIC)
    assert [copy.stored.offset for copy in driver.call(explain=explain).explain.copies] == [41]
    ask.key = "id-m50"  # by the index, not by its entry
    assert [one.offset for one in driver.call(find_messages=ask).found_messages.messages] == [50]
    ask.key = "id-m40"
    found = driver.call(find_messages=ask).found_messages
    assert (list(found.messages), found.incomplete) == ([], True)
