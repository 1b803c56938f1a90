"""pop_buffer=memory in a whole engine: what reaches the disk, when, and what that costs."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import Popped, ack_body, pop_body, send_body
from harness.names import TOPIC
from prometheus_client import generate_latest

from popmq_broker.config import PopBuffer
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.leases.pop_buffer import QUEUE_GRANTS_MAX
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.journal.journal import checkpoint
from popmq_broker.engine.journal.pop_buffer import BATCH_MAX
from popmq_broker.metrics import registry
from popmq_common.errors import DiskFull
from popmq_internal.v1 import link_pb2 as link

DONE = link.LEASE_OUTCOME_DONE
STAY_MS = 10_000


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path, pop_buffer=PopBuffer.MEMORY)
    driver.make(queues=1)
    yield driver
    driver.close()


def journal(broker: Broker) -> list[ck.Checkpoint | ck.AckRecord]:
    """What the revive topic holds, in the order of the log."""
    state = broker.state
    entries = [
        entry
        for i in range(state.runtime.config.revive_queues)
        for entry in state.runtime.store.entries(state.runtime.revive_topic, i, 0, 10_000)
    ]
    found: list[ck.Checkpoint | ck.AckRecord] = []
    for entry in sorted(entries, key=lambda entry: entry.log_offset):
        record = state.runtime.store.read(entry.log_offset, entry.size_bytes)
        assert record is not None
        if f"TAGS\x01{ck.CHECKPOINT_TAG}\x02".encode() in record.properties:
            found.append(ck.decode_checkpoint(record.body, where="test"))
        else:
            found.append(ck.decode_ack(record.body, where="test"))
    return found


def hold(driver: EngineDriver, bodies: str, *, each: bool = False) -> list[Popped]:
    for body in bodies:
        driver.send(body)
    if each:
        return [driver.pop(1, 60_000)[0] for _ in bodies]
    return driver.pop(32, 60_000)


def bodies(messages: list[Popped]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def fill_disk(driver: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(batch: Any) -> None:
        raise DiskFull(path=driver.data_dir)

    monkeypatch.setattr(driver.broker.state.runtime.store._commit_log, "append", refuse)


def test_what_is_acked_in_time_is_never_written(driver: EngineDriver) -> None:
    held = hold(driver, "abc")
    assert driver.ack(*(message.handle for message in held)) == [DONE] * 3
    driver.advance(3_600_000)
    driver.restart()
    assert journal(driver.broker) == []
    assert driver.pop() == []


def test_what_stays_is_stored_once_with_what_is_still_held(driver: EngineDriver) -> None:
    held = hold(driver, "abc")
    driver.ack(held[2].handle)
    driver.advance(STAY_MS - 1)
    assert journal(driver.broker) == []
    driver.advance(1)
    (stored,) = journal(driver.broker)
    assert isinstance(stored, ck.Checkpoint)
    assert (stored.start_offset, stored.offsets, stored.next_offset) == (0, (0, 1), 3)
    driver.advance(STAY_MS)
    assert len(journal(driver.broker)) == 1


def test_what_a_client_renews_is_journaled_at_once(driver: EngineDriver) -> None:
    (held,) = hold(driver, "a")
    driver.send("b")
    body = pop_body(1, 60_000)
    body["pop"].auto_renew, body["pop"].client_id = True, "c"
    driver.call(**body)
    assert [record.offsets for record in journal(driver.broker)] == [(0,), (1,)]
    assert driver.ack(held.handle) == [DONE]


def test_a_pop_and_an_ack_are_answered_while_the_disk_is_busy(driver: EngineDriver) -> None:
    driver.send("a")
    driver.hold_disk()
    assert not driver.start(**send_body("b")).done()
    (message,) = driver.pop(1, 60_000)
    assert driver.ack(message.handle) == [DONE]


def test_an_ack_that_repeats_a_written_one_waits_for_it(driver: EngineDriver) -> None:
    (message,) = hold(driver, "a")
    driver.advance(STAY_MS)
    driver.hold_disk()
    request = ack_body([message.handle])
    assert not driver.start(**request).done()
    assert not driver.start(**request).done()


def test_the_durable_default_never_reads_back_what_was_acked_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The revive topic is written, but read at a start only, and there from what is still held."""
    driver = EngineDriver(tmp_path)
    driver.make(queues=1)
    read: list[int] = []
    entries = type(driver.broker.state.runtime.store).entries

    def watched(store: Any, topic: str, queue_id: int, start: int, count: int) -> Any:
        found = entries(store, topic, queue_id, start, count)
        if topic == driver.broker.state.runtime.revive_topic:
            read.append(len(found))
        return found

    monkeypatch.setattr(type(driver.broker.state.runtime.store), "entries", watched)
    for _ in range(20):
        driver.ack(*(message.handle for message in hold(driver, "abc")))
        driver.advance(60_000)
    assert read == []
    hold(driver, "z")
    driver.run(driver.broker.offsets.write())
    read.clear()
    driver.crash(random.Random(1))
    assert sum(read) == 1, "one checkpoint, of z"
    driver.close()


def test_t10_the_last_of_a_batch_acked_late_brings_none_of_it_back(driver: EngineDriver) -> None:
    """RocketMQ: acks in the buffer and the one in the store did not find each other."""
    held = hold(driver, "abcdefgh")
    driver.ack(*(message.handle for message in held[:-1]))
    driver.advance(STAY_MS)
    assert driver.ack(held[-1].handle) == [DONE]
    driver.crash(random.Random(1))
    driver.advance(3_600_000)
    assert driver.pop() == []


@pytest.mark.parametrize("synced", [False, True])
def test_t11_an_ack_while_the_buffer_is_stored_stays(driver: EngineDriver, synced: bool) -> None:
    """RocketMQ: the snapshot that is written overtakes the ack."""
    held = hold(driver, "ab")
    driver.clock.advance(STAY_MS)

    async def store_and_ack() -> None:
        storing = driver.loop.create_task(driver.broker.storing.store_due())
        request = ack_body([held[0].handle])
        acking = driver.loop.create_task(driver.handle(link.Call(**request)))
        reply = await acking
        assert list(reply.ack.outcomes) == [DONE]
        if synced:
            await storing
            await driver.broker.offsets.write()

    driver.run(store_and_ack())
    driver.crash(random.Random(1))
    driver.advance(60_000)
    assert bodies(driver.pop()) == ["b"]


def test_t17_acking_thrice_leaves_nothing_behind(driver: EngineDriver) -> None:
    """RocketMQ: more acks than checkpoints, and the revive topic is read for ever."""
    early = hold(driver, "ab")
    late = hold(driver, "cd")
    for _ in range(3):
        driver.ack(*(message.handle for message in early))
    driver.ack(late[0].handle)
    driver.advance(STAY_MS)
    for _ in range(3):
        driver.ack(*(message.handle for message in late))
    state = driver.broker.state
    for i in range(state.runtime.config.revive_queues):
        end = state.runtime.store.max_offset(state.runtime.revive_topic, i)
        assert state.lease_state.progress.first_needed(i, end) == end
    assert (len(state.lease_state.buffer), state.lease_state.table.live_count) == (0, 0)


def test_t20_a_checkpoint_that_could_not_be_stored_is_stored_whole_later(
    driver: EngineDriver,
) -> None:
    held = hold(driver, "abc", each=True)
    driver.ack(held[1].handle)
    with pytest.MonkeyPatch.context() as patch:
        fill_disk(driver, patch)
        driver.advance(STAY_MS)
    assert journal(driver.broker) == []
    driver.advance(1_000)
    driver.crash(random.Random(1))
    assert driver.ack(held[0].handle) == [DONE]
    driver.advance(60_000)
    (message,) = driver.pop()
    assert (message.body, message.delivery_attempt) == (b"c", 2)


def test_t26_the_same_checkpoint_twice_holds_nothing_up(driver: EngineDriver) -> None:
    """Popped, undone by a crash, popped again within the same millisecond, and written twice."""
    first = hold(driver, "a")
    driver.crash(random.Random(1))
    second = driver.pop(32, 60_000)
    assert first[0].receipt.pop_time_ms == second[0].receipt.pop_time_ms
    driver.advance(STAY_MS)
    (stored,) = journal(driver.broker)
    assert isinstance(stored, ck.Checkpoint)
    state, i = driver.broker.state, second[0].receipt.revive_queue

    async def once_more() -> None:
        now_ms = driver.clock.now_ms()
        state.runtime.store.append(
            [checkpoint(state.runtime, stored, i, now_ms)], now_ms, system=True
        )

    driver.run(once_more())
    driver.restart()
    assert driver.ack(second[0].handle) == [DONE]
    state = driver.broker.state
    queue = next(iter(state.lease_state.table.queues.values()))
    assert (len(state.lease_state.buffer), queue.committed, queue.needed_from) == (0, 1, 1)
    end = state.runtime.store.max_offset(state.runtime.revive_topic, i)
    assert state.lease_state.progress.first_needed(i, end) == end


def test_t27_what_happens_while_a_checkpoint_is_written_does_not_change_it(
    driver: EngineDriver,
) -> None:
    held = hold(driver, "abc")
    driver.clock.advance(STAY_MS)
    request = ack_body([held[0].handle])

    async def race() -> None:
        storing = driver.loop.create_task(driver.broker.storing.store_due())
        await asyncio.sleep(0)  # it has appended, and waits for the disk
        await driver.handle(link.Call(**request))
        await driver.handle(link.Call(**pop_body(1, 60_000)))
        await storing

    driver.run(race())
    stored, acked = journal(driver.broker)
    assert isinstance(stored, ck.Checkpoint)
    assert isinstance(acked, ck.AckRecord)
    assert (stored.offsets, acked.offsets) == ((0, 1, 2), (0,))


def test_t28_with_a_full_disk_pops_are_refused_and_memory_stays_flat(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ: the buffer grows while nothing can be stored."""
    for i in range(300):
        driver.send(f"m{i}")
    held = driver.pop(4, 60_000)
    with pytest.MonkeyPatch.context() as patch:
        fill_disk(driver, patch)
        driver.advance(STAY_MS)
        for _ in range(50):
            with pytest.raises(DiskFull):
                driver.pop(4, 60_000)
        assert driver.broker.state.lease_state.buffer.leases == 4
        assert driver.broker.state.lease_state.table.live_count == 4
        assert driver.ack(held[0].handle) == [DONE], "what needs no disk still works"
    assert len(driver.pop(4, 60_000)) == 4, "there is room again"
    assert len(driver.pop(4, 60_000)) == 4
    assert driver.broker.state.lease_state.buffer.leases == 4, (
        "the first is stored, the second waits"
    )


def test_t29_every_way_in_is_bounded(tmp_path: Path) -> None:
    """Short and long, several queues, retries, with acks and without: never above the bound."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    driver = EngineDriver(tmp_path, pop_buffer=PopBuffer.MEMORY, pop_buffer_max=10)
    driver.make(queues=3)
    sent = 0
    acked = set()
    for _ in range(150):
        for _ in range(rng.randint(0, 6)):
            driver.send(f"m{sent}")
            sent += 1
        held = driver.pop(rng.randint(1, 6), rng.choice([1_000, 5_000, 60_000]))
        assert driver.broker.state.lease_state.buffer.leases <= 10
        for message in held:
            if rng.random() < 0.5:
                assert driver.ack(message.handle) == [DONE]
                assert message.body not in acked
                acked.add(message.body)
        if rng.random() < 0.2:
            driver.advance(rng.choice([10, 5_000, 60_000]))
    for _ in range(60):
        driver.advance(60_000)
        for message in driver.pop(32, 60_000):
            assert driver.ack(message.handle) == [DONE]
            acked.add(message.body)
    assert len(acked) == sent
    driver.close()


def test_many_that_are_due_together_are_stored_in_chunks(driver: EngineDriver) -> None:
    """RocketMQ: a scan that takes long switches merging off, and all is written in one burst."""
    count = 2 * BATCH_MAX + 10
    hold(driver, "x" * count, each=True)
    driver.clock.advance(STAY_MS)
    storing = driver.broker.storing
    assert [driver.run(storing.store_due()) for _ in range(4)] == [BATCH_MAX, BATCH_MAX, 10, 0]
    assert len(journal(driver.broker)) == count


def test_a_queue_with_too_many_grants_is_written_and_begins_anew(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, pop_buffer=PopBuffer.MEMORY, segment_bytes=64 << 20)
    driver.make(queues=1)
    hold(driver, "x" * QUEUE_GRANTS_MAX, each=True)
    assert journal(driver.broker) == []
    hold(driver, "y")
    assert len(journal(driver.broker)) == QUEUE_GRANTS_MAX + 1
    assert len(driver.broker.state.lease_state.buffer) == 0
    driver.close()


def test_a_moved_position_drops_what_is_buffered(driver: EngineDriver) -> None:
    """A topic that is deleted: nothing is left to store, nothing holds up what comes after."""
    hold(driver, "abc", each=True)
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    assert len(driver.broker.state.lease_state.buffer) == 0
    driver.make(queues=1)
    held = hold(driver, "d")
    driver.advance(STAY_MS + 1)  # a pop in the moment of the move counts from the next millisecond
    driver.crash(random.Random(1))
    assert driver.ack(held[0].handle) == [DONE]
    assert driver.pop() == []


def test_the_task_stores_what_is_due_and_rests_otherwise(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, pop_buffer=PopBuffer.MEMORY, pop_buffer_stay_ms=1)
    driver.make(queues=1)

    async def serve() -> None:
        running = driver.loop.create_task(driver.broker.storing.run())
        for body in "ab":
            await driver.handle(link.Call(**send_body(body)))
            await driver.handle(link.Call(**pop_body(1, 60_000)))
            driver.clock.advance(1)
            while len(driver.broker.state.lease_state.buffer):
                assert not running.done()
                await asyncio.sleep(0.001)
        store = driver.broker.state.runtime.store
        await store.durable(store.log_end)
        running.cancel()

    driver.run(serve())
    assert len(journal(driver.broker)) == 2
    driver.close()


def test_the_metrics_tell_what_a_crash_would_cost(driver: EngineDriver) -> None:
    early = hold(driver, "abc")
    driver.clock.advance(2_500)
    hold(driver, "de")
    driver.ack(*(message.handle for message in early[:2]))

    def shown(name: str) -> float:
        lines = generate_latest(registry(driver.broker)).decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(name + " ")))

    assert shown("popmq_pop_buffer_durable") == 0
    assert shown("popmq_pop_buffer_grants") == 2
    assert shown("popmq_pop_buffer_leases") == 5
    assert shown("popmq_pop_buffer_age_seconds") == 2.5
    driver.ack(early[2].handle)
    driver.advance(STAY_MS)
    driver.send("f")
    driver.pop(1, 1_000)
    assert shown("popmq_pop_buffer_merged_total") == 1
    assert shown("popmq_pop_buffer_stored_total") == 1
    assert shown("popmq_pop_buffer_bypassed_total") == 1
    assert shown("popmq_pop_buffer_grants") == 0
