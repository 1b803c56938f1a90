"""A group that is deleted leaves nothing behind that a start or a late answer could bring back."""

from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body
from harness.names import GROUP, TOPIC

from popmq_internal.v1 import link_pb2 as link


def pop_of_another(driver: EngineDriver) -> int:
    """A group that holds what it gets, so that old journal records stay needed."""
    request = link.Pop(group="other", topic=TOPIC, batch_size=32, invisible_ms=3_600_000)
    return len(driver.call(pop=request).pop.messages)


def made(folder: Path, revive_queues: int) -> EngineDriver:
    driver = EngineDriver(folder, revive_queues=revive_queues)
    driver.make(queues=1)
    other = link.GroupConfig(name="other", max_attempts=3, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=other))
    return driver


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("revive_queues", [1, 2])
def test_a_start_brings_nothing_back(tmp_path: Path, revive_queues: int, fifo: bool) -> None:
    driver = made(tmp_path, revive_queues)
    group = link.GroupConfig(name=GROUP, fifo=fifo, max_attempts=3, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=group))
    assert pop_of_another(driver) == 0
    driver.send("a")
    driver.send("b")
    assert pop_of_another(driver) == 2  # the second pop: its revive queue is 1, if there are 2
    assert pop_of_another(driver) == 0
    held = driver.pop()
    driver.ack(held[0].handle)
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    driver.restart()
    driver.call(put_group=link.PutGroup(group=group))
    driver.restart()
    assert [message.delivery_attempt for message in driver.pop()] == [1, 1]
    driver.close()


def test_a_pop_that_nobody_waits_for_gives_nothing_back_to_it(tmp_path: Path) -> None:
    driver = made(tmp_path, 1)
    driver.send("a")
    request = driver.broker.state.runtime.store._flusher.request
    driver.hold_disk()
    pop = driver.start(**pop_body(1, 10_000))
    delete = driver.start(delete_group=link.DeleteGroup(group=GROUP))
    pop.cancel()
    driver.start(describe=link.Describe())
    assert pop.cancelled()
    driver.broker.state.runtime.store._flusher.request = request  # type: ignore[method-assign]
    driver.send("b")

    async def deleted() -> link.Reply:
        return await delete

    assert driver.run(deleted()).HasField("done")
    assert driver.broker.state.lease_state.table.live_count == 0
    driver.close()
