"""The state machine once more with pop_buffer=memory: all promises, less its stated price.

The price: after a crash a message may come again, as if for the first time, if less than the stay
time ago it was handed out or, in the stay time of its grant, acked. Nothing else may.
"""

import asyncio
import random
import tempfile
from pathlib import Path

from harness.broker import EngineDriver
from harness.broker_calls import Popped, pop_body
from harness.broker_machine import DONE, BrokerMachine
from harness.names import GROUP, TOPIC
from harness.told import Told
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from popmq_broker.config import PopBuffer
from popmq_internal.v1 import link_pb2 as link

STAY_MS = 2_000


class MemoryMachine(BrokerMachine):
    @initialize(seed=st.integers(0, 2**32), room=st.sampled_from([6, 1_000]))
    def begin(self, seed: int, room: int) -> None:
        self.rng = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory()
        self.driver = EngineDriver(
            Path(self._folder.name),
            pop_buffer=PopBuffer.MEMORY,
            pop_buffer_stay_ms=STAY_MS,
            pop_buffer_max=room,
        )
        self.driver.make(max_attempts=1_000)
        self.room = room
        self.told: dict[str, Told] = {}
        self.sent = 0
        self.popped_ms: dict[str, int] = {}
        self.acked_ms: dict[str, int] = {}
        self.stored_ms = self._now()
        """When what stayed too long was last stored; some crashes come before it is."""
        self.priced: set[str] = set()
        """A crash may have undone that they were handed out, or acked."""

    @rule(ms=st.sampled_from([1, 99, 100, 1_000, 30_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)
        self.driver.run(self.driver.broker.offsets.write())
        self.stored_ms = self._now()

    @rule(
        pick=st.randoms(use_true_random=False),
        ms=st.sampled_from([0, 100, 1_500]),
        then=st.sampled_from(["ack", "change", "give up", "short pop", "short lease"]),
        crash=st.booleans(),
    )
    def busy(self, pick: random.Random, ms: int, then: str, crash: bool) -> None:
        """Several grants of one or two messages are buffered, some are acked; then something."""
        for _ in range(pick.randint(1, 4)):
            self.send(pick.randint(1, 2))
            self._received(self.driver.pop(pick.randint(1, 2), 60_000))
        self.ack_newest(pick, pick.randint(1, 4), pick.random() < 0.5)
        if ms:
            self.time_passes(ms)
        if then == "ack":
            self.ack_newest(pick, pick.randint(1, 4), pick.random() < 0.5)
        elif then == "change":
            self.change(pick, 20_000)
        elif then == "give up":
            self.give_up(pick, pick.choice(["release", "forward"]))
        elif then == "short pop":
            self.send(2)
            self._received(self.driver.pop(1, 1_000))
        elif then == "short lease":
            self.send(1)
            self._received(self.driver.pop(2, 4_600))
        if crash:
            self.crash()

    @rule(pick=st.randoms(use_true_random=False), work=st.sampled_from(["release", "forward"]))
    def give_up(self, pick: random.Random, work: str) -> None:
        """The one is redelivered, uncounted; the other is in the dead letters for good."""
        held = [told for told in self._held() if told.body not in self.priced]
        if not held:
            return
        told = pick.choice(held)
        handle = told.handles[-1]
        if work == "release":
            release = link.Release(group=GROUP, topic=TOPIC, handles=[handle])
            self.driver.call(release=release)
            told.held_until_ms, told.attempt_certain = 0, False
        else:
            forward = link.ForwardDeadLetter(group=GROUP, topic=TOPIC, handle=handle)
            self.driver.call(forward_dead_letter=forward)
            told.nacked = told.dead = True
            told.held_until_ms = told.perhaps_until_ms = 0
        self.popped_ms.pop(told.body, None)  # both are on disk: no price

    def _held(self) -> list[Told]:
        return [
            told
            for told in self.told.values()
            if told.has_handle
            and not (told.acked or told.ack_unknown or told.change_unknown)
            and self._now() < told.held_until_ms
        ]

    def _lose_power(self) -> None:
        self._pay()
        super()._lose_power()
        self.driver.clock.advance(1)

    @rule(work=st.sampled_from(["send", "pop", "ack", "change", "revive"]))
    def crash_in_the_middle(self, work: str) -> None:
        self.driver.hold_disk()
        getattr(self, f"_unanswered_{work}")()
        self._lose_power()

    def _pay(self) -> None:
        now = self.stored_ms
        for body, popped_ms in self.popped_ms.items():
            acked_ms = self.acked_ms.get(body)
            if acked_ms is None:
                touched = now - popped_ms < STAY_MS
            else:
                touched = acked_ms - popped_ms < STAY_MS and now - acked_ms < STAY_MS
            if touched:
                self.priced.add(body)

    def _received(self, messages: list[Popped]) -> None:
        for message in messages:
            body = message.body.decode()
            told = self.told[body]
            if body in self.priced:
                self.priced.discard(body)
                told.acked = told.attempt_certain = False
                told.held_until_ms = 0
            self.acked_ms.pop(body, None)
            self.popped_ms[body] = message.receipt.pop_time_ms
        super()._received(messages)

    def _acked(self, told: Told, outcome: int) -> None:
        if outcome != DONE and told.body in self.priced:
            return
        super()._acked(told, outcome)
        if outcome == DONE:
            self.acked_ms[told.body] = self._now()
            if told.body in self.priced:  # its grant had been stored, and so was this ack
                self.priced.discard(told.body)
                del self.popped_ms[told.body]

    def _unpromised(self, call: "asyncio.Task[link.Reply]") -> None:
        """Pops and acks may be answered from memory; nothing else while the disk is held."""
        if call.done():
            reply = call.result()
            assert not reply.HasField("send"), "a send was answered before it was on disk"
            assert reply.change_invisible.outcome != DONE, "a change before it was on disk"

    def _unanswered_pop(self) -> None:
        self._unpromised(self.driver.start(**pop_body(4, 60_000)))
        self._forget_who_was_popped()

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def buffer_adds_up(self) -> None:
        """Every lease is in a journal or in the buffer, and the buffer within its bound."""
        state = self.driver.broker.state
        lines = [queue.unstored for queue in state.lease_state.table.queues.values()]
        assert len(state.lease_state.buffer) == sum(len(line) for line in lines)
        assert state.lease_state.buffer.leases <= self.room
        for queue in state.lease_state.table.queues.values():
            entries = queue.unstored.grants.values()
            waiting = {offset for offset, one in queue.leases.items() if not one.grant.stored}
            held = {
                offset
                for entry in entries
                for offset in entry.offsets
                if offset in queue.leases and queue.leases[offset].grant is entry.grant
            }
            assert waiting == held
            assert sum(entry.live for entry in entries) == len(held)
            assert queue.committed <= queue.needed_from <= queue.position
            assert all(offset >= queue.needed_from for offset in waiting)


MemoryMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)
TestMemoryMachine = MemoryMachine.TestCase
