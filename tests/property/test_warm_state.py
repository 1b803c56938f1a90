"""Does a follower with a warm state know the same as one that reads files and journal?"""

import random
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.warm_follower import Follower

from popmq_broker.engine.journal.state import BrokerState
from popmq_broker.engine.startup import replay
from popmq_common.errors import BadRequest, IllegalOffset
from popmq_internal.v1 import link_pb2 as link

STEPS, QUEUES = 120, 2


async def both(follower: Follower) -> tuple[BrokerState | None, BrokerState]:
    """As it would lead: from memory, and from the disk."""
    await follower.lead()
    cold = follower.empty(follower.store)
    await replay.load(cold)
    return await follower.warm.take(), cold


def known(state: BrokerState) -> dict[str, Any]:
    """What a broker answers from, in a form that can be compared."""
    leases, catalog = state.lease_state, state.catalog_state
    return {
        "topics": catalog.topics,
        "groups": catalog.groups,
        "floors": catalog.floors,
        "starts": catalog.starts,
        "passes from": leases.passes_from,
        "half messages": sorted(half.offset for half in state.halves),
        "live": leases.table.live_count,
        "due": leases.table.next_due_ms(),
        "needed": [
            leases.progress.first_needed(i, -1) for i in range(state.runtime.config.revive_queues)
        ],
        "queues": {
            key: {
                "position": queue.position,
                "committed": queue.committed,
                "expired": queue.expired,
                "told": queue.told,
                "leases": {
                    offset: (lease.log_offset, lease.grant.generation, lease.grant.due_ms)
                    for offset, lease in sorted(queue.leases.items())
                },
                "in order": None
                if queue.fifo_queue is None
                else {
                    at: (one.settled, one.held, one.attempts, one.handed_out, one.message_group)
                    for at, one in sorted(queue.fifo_queue.entries.items())
                },
            }
            for key, queue in sorted(leases.table.queues.items())
        },
    }


class Life:
    """Random steps of clients and operators."""

    def __init__(self, driver: EngineDriver, rng: random.Random) -> None:
        self._driver, self._rng = driver, rng
        self._held: list[str] = []
        self._sent = 0
        self._fifo = False

    def step(self) -> None:
        steps = [self.send] * 4 + [self.receive] * 4 + [self.ack] * 4
        steps += [self.change, self.give_back, self.wait, self.reset, self.switch_order, self.topic]
        steps += [self.half]
        self._rng.choice(steps)()

    def send(self) -> None:
        for _ in range(self._rng.randint(1, 4)):
            self._sent += 1
            self._driver.send(f"{self._sent}", message_group=self._rng.choice("abc"))

    def receive(self) -> None:
        invisible_ms = self._rng.choice([500, 5_000, 60_000])
        popped = self._driver.pop(self._rng.randint(1, 5), invisible_ms)
        self._held += [message.handle for message in popped]

    def _some(self) -> list[str]:
        self._rng.shuffle(self._held)
        count = self._rng.randint(1, 4)
        some, self._held = self._held[:count], self._held[count:]
        return some

    def ack(self) -> None:
        if some := self._some():
            self._driver.ack(*some)

    def change(self) -> None:
        for handle in self._some()[:1]:
            changed = self._driver.change(handle, self._rng.choice([300, 20_000]))
            if changed.outcome == link.LEASE_OUTCOME_DONE:
                self._held.append(changed.handle)

    def give_back(self) -> None:
        if some := self._some():
            self._driver.nack(*some, delay_ms=self._rng.choice([0, 2_000]))

    def wait(self) -> None:
        self._driver.advance(self._rng.choice([100, 1_000, 10_000]))

    def reset(self) -> None:
        if self._rng.random() < 0.5:
            return
        reset = link.ResetOffsets(group=GROUP, topic=TOPIC, offset=self._rng.choice([0, 3]))
        try:
            self._driver.call(reset_offsets=reset)
        except IllegalOffset:  # there are fewer messages
            return

    def switch_order(self) -> None:
        """Only taken by a group that holds nothing."""
        for handle in self._held:
            self._driver.ack(handle)
        self._held = []
        self._driver.advance(120_000)
        wanted = link.GroupConfig(name=GROUP, fifo=not self._fifo, max_attempts=16)
        try:
            self._driver.call(put_group=link.PutGroup(group=wanted))
            self._fifo = not self._fifo
        except BadRequest:  # something waits for its retry
            return

    def topic(self) -> None:
        """Another one, received from once, and deleted."""
        name = f"t{self._rng.randint(0, 2)}"
        config = link.TopicConfig(name=name, read_queues=1, write_queues=1, message_type="MIXED")
        self._driver.call(put_topic=link.PutTopic(topic=config))
        if self._rng.random() < 0.5:
            self._driver.call(delete_topic=link.DeleteTopic(topic=name))

    def half(self) -> None:
        half = self._driver.half(f"half {self._sent}", immunity_s=600)
        if self._rng.random() < 0.6:
            self._driver.end(half, commit=self._rng.random() < 0.5)


@pytest.mark.parametrize("turn", range(12))
def test_a_warm_state_is_what_files_and_journal_say(
    tmp_path: Path, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    monkeypatch.setattr("popmq_broker.engine.replication.warm_state.LOOK_S", 0.0)
    refresh_s = rng.choice([0.0, 3_600.0])
    monkeypatch.setattr("popmq_broker.engine.replication.warm_state.REFRESH_S", refresh_s)
    driver = EngineDriver(tmp_path)
    driver.make(queues=QUEUES)
    life = Life(driver, rng)
    for _ in range(rng.randint(0, 30)):
        life.step()
    follower = Follower(driver, tmp_path / "follower")
    follower.copy_files()
    for _ in range(STEPS):
        life.step()
        if rng.random() < 0.5:
            follower.fetch()
        if rng.random() < 0.1:
            follower.copy_files()
    follower.fetch()
    warm, cold = driver.run(both(follower))
    assert warm is not None
    assert known(warm) == known(cold)
    follower.close()
    driver.close()
