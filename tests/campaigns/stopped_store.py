"""A data directory with something of everything, and all that a broker on it answers.

Plain and FIFO groups with leases, acks, nacks that wait, retries, dead letters sent again, tags,
two revive queues, a deleted topic and a deleted group: stopped cleanly, or killed.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_internal.v1 import link_pb2 as link

FIFO = "line"
SETTINGS: dict[str, Any] = {"revive_queues": 2}
TAGS = ("red", "green", "blue")


def make(folder: Path, *, clean: bool) -> tuple[Path, EngineDriver]:
    """The directory, and the driver whose clock and loop the starts on copies of it share."""
    driver = EngineDriver(folder, **SETTINGS)
    driver.make(queues=2, max_attempts=2, start="FIRST")
    _put_group(driver, FIFO, fifo=True)
    for name in ("gone", "kept"):
        topic = link.TopicConfig(name=name, read_queues=1, write_queues=1, message_type="NORMAL")
        driver.call(put_topic=link.PutTopic(topic=topic))
        _put_group(driver, f"group-{name}")
    for i in range(60):
        driver.send(f"m{i}", tag=TAGS[i % 3], message_group="abc"[i % 3] if i % 2 else "")
    _consume(driver)
    driver.call(delete_topic=link.DeleteTopic(topic="gone"))
    driver.call(delete_group=link.DeleteGroup(group="group-gone"))
    driver.run(driver.broker.offsets.write())
    if not clean:
        driver.run(driver.broker.state.runtime.store.checkpoint())
    for i in range(60, 75):
        driver.send(f"m{i}", tag=TAGS[i % 3])
    driver.ack(*[message.handle for message in driver.pop(4, 600_000)])
    driver.pop(3, 600_000)
    if clean:
        driver.run(driver.broker.close())
    else:
        driver._abandon()
    return driver.data_dir, driver


def _put_group(driver: EngineDriver, name: str, *, fifo: bool = False) -> None:
    group = link.GroupConfig(name=name, fifo=fifo, max_attempts=2, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=group))


def _consume(driver: EngineDriver) -> None:
    first = driver.pop(10, 600_000)
    driver.ack(*[message.handle for message in first[:6]])
    driver.nack(first[6].handle, delay_ms=900_000, reason="later")
    driver.nack(first[7].handle, kind=link.NACK_KIND_FATAL, reason="poison")
    driver.nack(first[8].handle, kind=link.NACK_KIND_FATAL, reason="again")
    driver.redrive(count_max=1)
    driver.pop(5, 1_000)
    driver.advance(2_000)  # five copies to the retry topic
    held = driver.pop(5, 600_000)
    driver.change(held[0].handle, 700_000)
    fifo = link.Pop(group=FIFO, topic=TOPIC, batch_size=4, invisible_ms=600_000)
    driver.call(pop=fifo)


class Reopened:
    """A broker on a copy of the directory."""

    def __init__(self, source: Path, folder: Path, like: EngineDriver) -> None:
        self.folder = folder
        self._source = source
        self._like = like
        self._now_ms = like.clock.now_ms()
        self.data_dir = folder / "data-0"

    def fresh(self) -> None:
        """The directory as it was made."""
        shutil.rmtree(self.data_dir, ignore_errors=True)
        shutil.copytree(self._source, self.data_dir)
        self._like.clock._now_ms = self._now_ms

    def answers(self) -> dict[str, Any]:
        """Everything a client or an operator could learn. Raises what the broker does."""
        driver = EngineDriver(self.folder, like=self._like, **SETTINGS)
        try:
            found = dict(_standing(driver))
            found.update(_read(driver))
            return found
        finally:
            driver.close()


def _standing(driver: EngineDriver) -> Iterator[tuple[str, Any]]:
    state = driver.broker.state
    yield "topics", {name: repr(topic) for name, topic in state.catalog_state.topics.items()}
    yield "groups", {name: repr(group) for name, group in state.catalog_state.groups.items()}
    yield "floors", dict(state.catalog_state.floors)
    for key, queue in state.lease_state.table.queues.items():
        leases = {
            i: (lease.grant.generation, lease.grant.due_ms) for i, lease in queue.leases.items()
        }
        yield f"positions {key}", (queue.position, queue.committed, queue.needed_from, leases)


def _read(driver: EngineDriver) -> Iterator[tuple[str, Any]]:
    store = driver.broker.state.runtime.store
    for topic, queue_id in sorted(store._queues):
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        records = [
            repr(store.read(entry.log_offset, entry.size_bytes))
            for entry in store.entries(topic, queue_id, low, high - low)
        ]
        yield f"queue {topic}/{queue_id}", (low, high, records)
    letters = driver.dead_letters()
    yield "dead letters", [letter.SerializeToString() for letter in letters.letters]
    for tag in TAGS:  # by the tag codes of the entries alone
        group = link.GroupConfig(name=f"new-{tag}", max_attempts=2, consume_from="FIRST")
        driver.call(put_group=link.PutGroup(group=group))
        wanted = link.Pop(
            group=f"new-{tag}",
            topic=TOPIC,
            batch_size=32,
            invisible_ms=60_000,
            filter_kind=link.FILTER_KIND_TAG,
            filter_expression=tag,
        )
        reply = driver.call(pop=wanted).pop
        yield f"filter {tag}", sorted(message.record for message in reply.messages)
    yield f"pop {GROUP}", sorted(message.body for message in driver.pop(32, 1_000))
    driver.advance(1_000_000)
    yield "after the leases", sorted(message.body for message in driver.pop(32, 1_000))
