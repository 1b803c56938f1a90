"""The second count of a message: what is given back uncounted does not come for ever."""

import random
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.store import Told

from popmq_broker.core.retries import deliveries
from popmq_broker.engine.retries import copies
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link

UNCOUNTED = link.NACK_KIND_UNCOUNTED


def give_back(driver: EngineDriver, handle: str, rng: random.Random) -> None:
    """In one of the ways that do not count."""
    if rng.random() < 0.5:
        driver.call(release=link.Release(group=GROUP, topic=TOPIC, handles=[handle]))
        return
    driver.nack(handle, kind=UNCOUNTED, delay_ms=rng.choice([0, 1_000]))
    driver.advance(1_000)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_it_comes_as_often_as_the_ceiling_says_whatever_crashes(
    tmp_path: Path, seed: int, fifo: bool
) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    driver = EngineDriver(tmp_path)
    try:
        driver.make(queues=1, fifo=fifo, max_attempts=9, max_hand_outs=12)
        driver.send("a", message_group="m")
        popped = 0
        while not driver.dead_letters().letters:
            for message in driver.pop(invisible_ms=10_000):
                popped += 1
                assert popped <= 12
                if popped < 12 and message.delivery_attempt < 9 and rng.random() < 0.2:
                    driver.nack(message.handle, delay_ms=0)
                else:
                    give_back(driver, message.handle, rng)
            if rng.random() < 0.3:
                driver.crash(rng)
            elif rng.random() < 0.3:
                driver.restart()
            driver.advance(10_000)
        (letter,) = driver.dead_letters().letters
        assert popped == 12
        assert letter.handed_out == 12
        assert letter.reason.startswith("handed out 12 times, ")
    finally:
        driver.close()


@pytest.mark.parametrize("fifo", [False, True])
def test_what_comes_often_is_told(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch, fifo: bool
) -> None:
    monkeypatch.setattr(copies, "WARNED_EVERY", 3)
    driver.make(fifo=fifo)
    driver.send("a")
    told = Told()
    driver.broker.state.runtime.log = told.log
    for expected in (0, 0, 1, 1, 1, 2):
        driver.nack(driver.pop()[0].handle, kind=UNCOUNTED, delay_ms=0)
        driver.advance(0)
        assert driver.broker.state.runtime.stats.handed_out_often[TOPIC, GROUP] == expected
    about = {"group": GROUP, "topic": TOPIC, "message_id": "id-a"}
    warned = [line for line in told.lines if line["event"] == "message.handed_out_often"]
    assert [line["handed_out"] for line in warned] == [3, 6]
    assert all(({"log_level": "warning"} | about).items() <= line.items() for line in warned)


def test_counted_attempts_alone_decide_when_all_of_them_count(driver: EngineDriver) -> None:
    driver.make(max_attempts=5, max_hand_outs=2)
    driver.send("a")
    for attempt in range(1, 6):
        (message,) = driver.pop()
        assert message.delivery_attempt == attempt
        driver.nack(message.handle, delay_ms=0)
        driver.advance(0)
    (letter,) = driver.dead_letters().letters
    assert (letter.attempts, letter.handed_out) == (5, 5)


def test_a_group_keeps_its_ceiling_over_a_change_by_somebody_who_does_not_know_it(
    driver: EngineDriver,
) -> None:
    def ceiling() -> int:
        return driver.call(get_group=link.GetGroup(group=GROUP)).get_group.group.max_hand_outs

    driver.make()
    assert ceiling() == deliveries.MAX_DELIVERIES_DEFAULT == 1_000
    driver.make(max_hand_outs=7)
    driver.make(max_attempts=3)
    driver.restart()
    assert ceiling() == 7
    with pytest.raises(BadRequest):
        driver.make(max_hand_outs=0)


def test_what_pulled_and_does_not_count_has_a_ceiling_too(driver: EngineDriver) -> None:
    driver.make(queues=1, max_hand_outs=3)
    driver.send("a")
    place = (TOPIC, 0)
    for expected in ("%RETRY%g", "%RETRY%g", "%DLQ%g"):
        topic, offset = place
        back = link.SendBack(group=GROUP, topic=topic, queue_id=0, offset=offset, uncounted=True)
        assert driver.call(send_back=back).send_back.topic == expected
        driver.advance(10_000)
        place = ("%RETRY%g", offset + (topic != TOPIC))
    (letter,) = driver.dead_letters().letters
    assert letter.reason == "handed out 3 times, 3 of them uncounted"
