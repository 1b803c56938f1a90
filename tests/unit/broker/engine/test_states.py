"""Every arrow of docs/pop.md is walked, and writes what the table says."""

import random
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_broker.config import PopBuffer
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.states import ARROWS, Arrow, GroupKinds, MessageState
from popmq_broker.core.store.queue_entry import tag_of
from popmq_common.records.names import CATALOG_TOPIC, dead_letter_topic, retry_topic
from popmq_internal.v1 import link_pb2 as link

LONG_MS = 60_000


class Stage:
    def __init__(self, folder: Path, groups: GroupKinds) -> None:
        mode = PopBuffer.MEMORY if groups is GroupKinds.MEMORY else PopBuffer.DURABLE
        self.driver = EngineDriver(folder, pop_buffer=mode)
        self.fifo = groups is GroupKinds.FIFO
        self.driver.make(queues=1, max_attempts=2, fifo=self.fifo)
        self.handles: list[str] = []

    def walk(self, steps: str) -> None:
        for step in steps.split():
            getattr(self, step)()

    def send(self, body: str) -> None:
        self.driver.send(body, message_group="m")

    def send_second(self) -> None:
        self.send("second")

    def pop(self, invisible_ms: int = LONG_MS) -> None:
        self.handles += [message.handle for message in self.driver.pop(1, invisible_ms)]

    def ack(self) -> None:
        self.driver.ack(self.handles[-1])

    def change(self) -> None:
        self.handles.append(self.driver.change(self.handles[-1], LONG_MS).handle)

    def forward(self) -> None:
        request = link.ForwardDeadLetter(group=GROUP, topic=TOPIC, handle=self.handles[-1])
        self.driver.call(forward_dead_letter=request)

    def later(self) -> None:
        self.driver.advance(LONG_MS)

    def crash(self) -> None:
        self.driver.crash(random.Random(1))

    def delete(self) -> None:
        self.driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))

    def state(self) -> MessageState:
        """Of the newest message sent, or of its copy."""
        broker = self.driver.broker.state
        queue = broker.lease_state.group_queue(QueueKey(GROUP, TOPIC, 0))
        at = broker.runtime.store.max_offset(TOPIC, 0) - 1
        if TOPIC not in broker.catalog_state.topics:
            return MessageState.DROPPED
        if broker.runtime.store.max_offset(dead_letter_topic(GROUP), 0):
            return MessageState.DEAD
        if broker.runtime.store.max_offset(retry_topic(GROUP, TOPIC), 0):
            return MessageState.READY
        if queue is None or (queue.fifo_queue is None and at >= queue.position):
            return MessageState.READY
        lease = queue.leases.get(at)
        if lease is not None:
            return MessageState.LEASED if lease.grant.stored else MessageState.BUFFERED
        if queue.fifo_queue is None or at < queue.fifo_queue.first:
            return MessageState.ACKED
        ready = queue.fifo_queue.ready_count() or at not in queue.fifo_queue.entries
        return MessageState.READY if ready else MessageState.BLOCKED

    def written(self) -> list[str]:
        """Tags of the revive topic's records and copies, in the order of the log."""
        store, topics = (
            self.driver.broker.state.runtime.store,
            self.driver.broker.state.catalog_state.topics,
        )
        found: list[tuple[int, str]] = []
        for name in topics.keys() - {TOPIC, CATALOG_TOPIC}:
            for i in range(topics[name].read_queues):
                for entry in store.entries(name, i, 0, 1_000):
                    record = store.read(entry.log_offset, entry.size_bytes)
                    assert record is not None
                    tag = tag_of(record.properties) if name.startswith("rmq_sys_") else "copy"
                    found.append((entry.log_offset, tag or ""))
        return [tag for _, tag in sorted(found)]


WALKS: dict[str, tuple[str, str]] = {
    "a": ("", "pop"),
    "b": ("pop", "ack"),
    "c": ("pop", "change"),
    "d": ("pop", "later"),
    "e": ("pop", "forward"),
    "f": ("pop", "delete"),
    "g": ("", "pop"),
    "h": ("pop", "ack"),
    "i": ("pop", "change"),
    "j": ("pop", "crash"),
    "k": ("pop ack", "crash"),
    "l": ("pop", "delete"),
    "m": ("pop", "later"),
    "n": ("send_second", "pop pop"),
    "o": ("pop send_second pop", "ack"),
}
"""What leads to the arrow's start, and what goes along it."""
BESIDES = {"i": ["ck", "ack"], "n": ["ck"], "o": ["ack"]}
"""What is written about another message, or by what made it move: a change, the first's pop."""


def cases() -> list[tuple[Arrow, GroupKinds]]:
    """An arrow of all groups is walked by a normal one and by a FIFO one."""
    both = (GroupKinds.NORMAL, GroupKinds.FIFO)
    return [
        (arrow, groups)
        for arrow in ARROWS
        for groups in (both if arrow.groups is GroupKinds.ALL else (arrow.groups,))
    ]


@pytest.mark.parametrize(("arrow", "groups"), cases(), ids=lambda value: str(value)[:20])
def test_an_arrow_leads_where_the_page_says_and_writes_that(
    tmp_path: Path, arrow: Arrow, groups: GroupKinds
) -> None:
    stage = Stage(tmp_path, groups)
    stage.send("first")
    prepare, go = WALKS[arrow.letter]
    stage.walk(prepare)
    assert stage.state() is arrow.start
    before = len(stage.written())
    stage.walk(go)
    assert stage.state() is arrow.end
    assert stage.written()[before:] == [*arrow.writes, *BESIDES.get(arrow.letter, [])]
    stage.driver.close()
