"""Sends that come in one frame: one batch for the disk, an answer for each."""

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import received, send_body
from harness.names import TOPIC

from popmq_common.link.sends import SendDone
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make(queues=1)
    return driver


def handle(driver: EngineDriver, *sends: link.Send) -> dict[int, link.Reply]:
    """Replies by call id, from 1."""
    answered: dict[int, link.Reply] = {}

    async def run() -> None:
        calls = [link.Call(id=i, send=send) for i, send in enumerate(sends, 1)]
        driver.broker.handle_sends(
            calls, lambda reply: answered.__setitem__(reply.id, received(reply))
        )
        await driver.broker.state.runtime.store.durable(driver.broker.state.runtime.store.log_end)

    driver.run(run())
    return answered


def send_of(driver: EngineDriver, *bodies: str) -> link.Send:
    records = [send_body(body)["send"].records[0] for body in bodies]
    return link.Send(topic=TOPIC, records=records)


def test_each_send_of_a_frame_gets_its_own_offsets(driver: EngineDriver) -> None:
    replies = handle(driver, send_of(driver, "a"), send_of(driver, "b", "c"), send_of(driver, "d"))
    assert {i: reply.send.queue_offset for i, reply in replies.items()} == {1: 0, 2: 1, 3: 3}
    assert [message.body for message in driver.pop()] == [b"a", b"b", b"c", b"d"]


def test_one_bad_send_does_not_spoil_the_others(driver: EngineDriver) -> None:
    unknown = link.Send(topic="nowhere", records=send_of(driver, "x").records)
    replies = handle(driver, send_of(driver, "a"), unknown, send_of(driver, "b"))
    assert replies[2].failure.error == "TopicNotFound"
    assert [message.body for message in driver.pop()] == [b"a", b"b"]


def test_a_send_too_large_for_a_file_is_refused_alone(driver: EngineDriver) -> None:
    huge = send_of(driver, "y" * 10_000)
    replies = handle(driver, send_of(driver, "a"), huge, send_of(driver, "b"))
    assert replies[2].failure.error == "BadRequest"
    assert [message.body for message in driver.pop()] == [b"a", b"b"]


def test_nothing_but_bad_sends_is_answered_at_once(driver: EngineDriver) -> None:
    replies = handle(driver, link.Send(topic="nowhere"), link.Send(topic=TOPIC))
    assert [replies[i].failure.error for i in (1, 2)] == ["TopicNotFound", "BadRequest"]


def test_no_send_of_a_frame_is_answered_before_the_disk_has_it(driver: EngineDriver) -> None:
    driver.hold_disk()
    answered: list[link.Reply | SendDone] = []

    async def run() -> None:
        calls = [link.Call(id=1, send=send_of(driver, "a"))]
        driver.broker.handle_sends(calls, answered.append)

    driver.run(run())
    assert answered == []
