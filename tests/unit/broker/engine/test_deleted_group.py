"""A group that is deleted leaves nothing behind that a start or a late answer could bring back."""

import asyncio
from pathlib import Path

import pytest
from harness.broker import GROUP, TOPIC, EngineDriver, pop_body

from popmq_broker.engine.topics import FLOORS_FILE
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
    request = driver.broker.state.store._flusher.request
    driver.hold_disk()
    pop = driver.start(**pop_body(1, 10_000))
    delete = driver.start(delete_group=link.DeleteGroup(group=GROUP))
    pop.cancel()
    driver.start(describe=link.Describe())
    assert pop.cancelled()
    driver.broker.state.store._flusher.request = request  # type: ignore[method-assign]
    driver.send("b")

    async def deleted() -> link.Reply:
        return await delete

    assert driver.run(deleted()).HasField("done")
    assert driver.broker.state.leases.live_count == 0
    driver.close()


def test_a_slow_save_of_the_tables_does_not_undo_a_faster_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = made(tmp_path, 1)
    store, topics = driver.broker.state.store, driver.broker.topics
    save_config = store.save_config
    floors_saved: list[str] = []
    go_on = asyncio.Event()

    async def second_is_slow(name: str, text: str) -> None:
        if name == FLOORS_FILE:
            floors_saved.append(text)
            if len(floors_saved) == 2:
                await go_on.wait()
        await save_config(name, text)

    async def both() -> None:
        monkeypatch.setattr(store, "save_config", second_is_slow)
        handle = driver.broker.handle
        delete = link.Call(delete_group=link.DeleteGroup(group=GROUP))
        deleting = asyncio.ensure_future(handle(delete))
        for _ in range(5):  # as far as it gets without the disk
            await asyncio.sleep(0)
        assert GROUP not in driver.broker.state.groups
        periodic = asyncio.ensure_future(topics.save())
        await deleting
        group = link.GroupConfig(name=GROUP, fifo=True, max_attempts=3)
        await handle(link.Call(put_group=link.PutGroup(group=group)))
        go_on.set()
        await periodic
        assert len(floors_saved) > 1

    driver.run(both())
    driver.restart()
    assert driver.broker.state.groups[GROUP].fifo
    driver.close()
