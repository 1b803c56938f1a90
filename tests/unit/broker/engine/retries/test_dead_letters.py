"""Dead letters for operators: pages, and redrives that send each message once."""

import random
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import popped
from harness.names import GROUP, TOPIC

from popmq_broker.engine.retries import dead_letters
from popmq_common.errors import BadRequest, GroupNotFound, TooManyRequests
from popmq_internal.v1 import link_pb2 as link

FATAL = link.NACK_KIND_FATAL


def give_up(driver: EngineDriver, *bodies: str) -> None:
    for body in bodies:
        driver.send(body)
    handles = [message.handle for message in driver.pop()]
    driver.nack(*handles, kind=FATAL, reason="no")


def came(driver: EngineDriver) -> list[str]:
    """Pop and ack all there is."""
    bodies = []
    while messages := driver.pop():
        driver.ack(*(message.handle for message in messages))
        bodies += [message.body.decode() for message in messages]
    return sorted(bodies)


def test_pages_of_a_list_leave_nothing_out(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "SCAN_ENTRIES_MAX", 4)
    driver.make()
    give_up(driver, *(f"m{i}" for i in range(11)))
    found, at = [], 0
    while at >= 0:
        page = driver.dead_letters(from_offset=at, count_max=3, whole=True)
        assert len(page.letters) <= 3
        found += [letter.body.decode() for letter in page.letters]
        at = page.next_offset
    assert sorted(found) == sorted(f"m{i}" for i in range(11))


def test_a_rare_one_is_found_over_several_calls(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "SCAN_ENTRIES_MAX", 4)
    driver.make(queues=1)
    give_up(driver, *(f"m{i}" for i in range(11)))
    wanted = link.DeadLetterFilter(message_id="id-m9")
    calls, at = 0, 0
    while not (page := driver.dead_letters(from_offset=at, filter=wanted)).letters:
        at = page.next_offset
        calls += 1
    assert calls == 2
    assert page.letters[0].message_id == "id-m9"


def test_bodies_of_a_page_are_bounded(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "BYTES_MAX", 10)
    driver.make()
    give_up(driver, *(f"message{i}" for i in range(3)))
    page = driver.dead_letters(whole=True)
    assert (len(page.letters), page.next_offset) == (2, 2)
    assert len(driver.dead_letters().letters) == 3
    assert driver.redrive().next_offset == 2


def test_what_one_call_reads_is_bounded_whatever_it_finds(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "SCAN_BYTES_MAX", 1_000)
    driver.make(queues=1)
    give_up(driver, "a", "b" * 900, "c", "d")
    nothing = link.DeadLetterFilter(reason="who knows")
    assert driver.dead_letters(filter=nothing).next_offset == 2
    assert driver.redrive(filter=nothing).next_offset == 2
    assert driver.redrive(from_offset=2, filter=nothing).next_offset == -1


@pytest.mark.parametrize("to_topic", [True, False])
@pytest.mark.parametrize("seed", range(24))
def test_a_redrive_that_a_crash_cuts_sends_each_message_once(
    tmp_path: Path, seed: int, to_topic: bool
) -> None:
    """Power off while nothing of the redrive has reached the disk, then the same again."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    driver = EngineDriver(tmp_path)
    try:
        driver.make()
        bodies = [f"m{i}" for i in range(5)]
        give_up(driver, *bodies)
        if seed % 2:
            driver.redrive(count_max=2, to_topic=to_topic)
        driver.hold_disk()
        which = link.Redrive(group=GROUP, count_max=100)
        driver.start(redrive_dead_letters=link.RedriveDeadLetters(which=which, to_topic=to_topic))
        driver.crash(rng)
        driver.redrive(to_topic=to_topic)
        assert came(driver) == bodies
        driver.restart()
        assert driver.redrive(to_topic=to_topic).sent == 0
    finally:
        driver.close()


def test_the_redriven_keep_queue_and_order_of_their_message_group(driver: EngineDriver) -> None:
    driver.make(queues=3, fifo=True)
    for body in ("a1", "a2", "b1"):
        driver.send(body, message_group=body[0])
    for _ in range(2):
        driver.nack(*(message.handle for message in driver.pop()), kind=FATAL)
    assert driver.redrive().sent == 3
    messages = driver.pop()
    assert [message.body for message in messages if message.body[:1] == b"a"] == [b"a1", b"a2"]
    for message in messages:
        assert message.receipt.queue_id == message.body[0] % 3
        assert message.delivery_attempt == 1


def test_what_fails_again_during_a_redrive_is_left_alone(driver: EngineDriver) -> None:
    driver.make()
    give_up(driver, "a", "b")
    first = driver.redrive(count_max=1)
    driver.nack(driver.pop()[0].handle, kind=FATAL)
    second = driver.redrive(from_offset=first.next_offset, until_offset=first.until_offset)
    assert (second.sent, second.next_offset) == (1, -1)
    assert len(driver.dead_letters().letters) == 3


def test_a_dry_run_sends_and_marks_nothing(driver: EngineDriver) -> None:
    driver.make()
    give_up(driver, "a", "b")
    end = driver.broker.state.runtime.store.log_end
    for to_topic in (True, False):
        assert driver.redrive(dry_run=True, to_topic=to_topic).sent == 2
    assert driver.broker.state.runtime.store.log_end == end
    assert not any(letter.redriven for letter in driver.dead_letters().letters)


def test_an_older_proxy_sends_to_the_topic(driver: EngineDriver) -> None:
    driver.make()
    give_up(driver, "a")
    assert driver.call(redrive=link.Redrive(group=GROUP, count_max=1)).redrive.sent == 1
    assert [message.receipt.retry_mark for message in driver.pop()] == [0]


def test_only_the_group_gets_it(driver: EngineDriver) -> None:
    driver.make(queues=1)
    other = link.GroupConfig(name="other", max_attempts=16, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=other))
    give_up(driver, "a")
    theirs = link.Pop(group="other", topic=TOPIC, batch_size=9, invisible_ms=10_000)
    assert len(driver.call(pop=theirs).pop.messages) == 1
    driver.redrive(to_topic=False)
    assert not driver.call(pop=theirs).pop.messages
    assert came(driver) == ["a"]


def test_a_waiting_receive_gets_it_at_once(driver: EngineDriver) -> None:
    driver.make()
    give_up(driver, "a")
    pop = link.Pop(group=GROUP, topic=TOPIC, batch_size=9, invisible_ms=10_000, poll_ms=15_000)
    waiting = driver.start(pop=pop)
    driver.redrive(to_topic=False)

    async def answer() -> link.Reply:
        return await waiting

    assert len(driver.run(answer()).pop.messages) == 1


def test_a_message_that_failed_on_its_way_through_the_group_still_knows_its_queue(
    driver: EngineDriver,
) -> None:
    """The retry topic has one queue; the topic's queue of a message group is another one."""
    driver.make(queues=3)
    driver.send("a", message_group="a")
    for to_topic in (False, True):
        (message,) = driver.pop()
        driver.nack(message.handle, kind=FATAL)
        driver.redrive(to_topic=to_topic)
    (message,) = driver.pop()
    assert (message.receipt.queue_id, message.receipt.retry_mark) == (ord("a") % 3, 0)


def test_a_group_that_is_gone_gets_nothing(driver: EngineDriver) -> None:
    driver.make()
    give_up(driver, "a")
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    with pytest.raises(GroupNotFound):
        driver.redrive(to_topic=False)


def test_who_reads_dead_letters_as_a_topic_goes_on_behind_what_was_purged(
    driver: EngineDriver,
) -> None:
    driver.make(queues=1)
    give_up(driver, "a", "b", "c")
    reader = link.GroupConfig(name="reader", max_attempts=16, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=reader))
    pop = link.Pop(group="reader", topic=f"%DLQ%{GROUP}", batch_size=1, invisible_ms=10_000)
    assert len(driver.call(pop=pop).pop.messages) == 1
    assert driver.purge(until_offset=2).count == 2
    driver.advance(10_000)
    for _ in range(2):  # once more after a restart
        queues = driver.call(describe=link.Describe(group="reader")).describe.groups[0].queues
        assert [(queue.min_offset, queue.committed_offset) for queue in queues] == [(2, 2)]
        figures = driver.call(figures=link.Figures()).figures
        assert figures.dead == 1
        assert not any(group.unaccounted for group in figures.groups)
        driver.restart()
    (message,) = driver.call(pop=pop).pop.messages
    assert popped(message).body == b"c"


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_brings_nothing_back_that_a_purge_was_answered_for(
    tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    driver = EngineDriver(tmp_path)
    try:
        driver.make(queues=1)
        give_up(driver, "a", "b")
        driver.purge()
        give_up(driver, "c")
        driver.crash(random.Random(seed))
        letters = driver.dead_letters(whole=True).letters
        assert [letter.body for letter in letters] == [b"c"]
    finally:
        driver.close()


def test_marks_are_bounded(driver: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "RUNS_MAX", 2)
    driver.make(queues=1)
    give_up(driver, "a", "b", "c", "d")
    driver.redrive(count_max=1)
    driver.redrive(count_max=1, filter=link.DeadLetterFilter(message_id="id-c"))
    with pytest.raises(TooManyRequests):
        driver.redrive(count_max=1)


def test_a_group_that_nobody_knows_and_a_group_without_dead_letters(driver: EngineDriver) -> None:
    with pytest.raises(GroupNotFound):
        driver.dead_letters()
    driver.make()
    assert driver.dead_letters().next_offset == -1
    assert driver.redrive().sent == 0
    assert driver.purge().count == 0
    for count in (0, 1_001):
        with pytest.raises(BadRequest):
            driver.dead_letters(count_max=count)


def test_a_deleted_group_leaves_its_dead_letters(driver: EngineDriver) -> None:
    driver.make()
    give_up(driver, "a")
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    assert driver.redrive().sent == 1
    status = driver.call(describe=link.Describe(topic=TOPIC)).describe.topics[0]
    assert sum(queue.max_offset for queue in status.queues) == 2
