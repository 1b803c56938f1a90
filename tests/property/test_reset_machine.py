"""Resets in any history of sends, receives, acks, time, restarts and crashes: the group gets what
lies behind the new offsets, each message once more and nothing else, and old handles are void."""

import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from harness.broker import QUICK_DISK, EngineDriver
from harness.broker_calls import Popped, send_body
from harness.names import GROUP, TOPIC
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from popmq_internal.v1 import link_pb2 as link

DONE = link.LEASE_OUTCOME_DONE
QUEUES = 2


@dataclass
class Told:
    """What the group was told of a message since its position was last moved over it."""

    place: tuple[int, int]
    sent_ms: int
    settled: bool = False
    attempt: int = 0
    held_until_ms: int = 0
    handle: str = ""
    void: list[str] = field(default_factory=list)

    def again(self) -> None:
        self.settled, self.attempt, self.held_until_ms = False, 0, 0
        self.let_go()

    def let_go(self) -> None:
        if self.handle:
            self.void.append(self.handle)
            self.handle = ""


class ResetMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32), fifo=st.booleans())
    def begin(self, seed: int, fifo: bool) -> None:
        self.rng, self.fifo = random.Random(seed), fifo
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        self.driver = EngineDriver(Path(self._folder.name))
        self.driver.make(queues=QUEUES, max_attempts=1_000, fifo=fifo)
        self.told: dict[str, Told] = {}
        self.ends = [0] * QUEUES
        self.send(3)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            self._drain()
        finally:
            self.driver.close()
            self._folder.cleanup()

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            self.driver.advance(1)
            body = f"m{len(self.told)}"
            group = self.rng.choice("ab") if self.fifo else ""
            reply = self.driver.call(
                **send_body(body, None, group, self.rng.randrange(QUEUES))
            ).send
            place = reply.queue_id, reply.queue_offset
            self.told[body] = Told(place, self._now())
            self.ends[reply.queue_id] = reply.queue_offset + 1

    @rule(count=st.integers(1, 6), invisible_ms=st.sampled_from([100, 10_000]))
    def pop(self, count: int, invisible_ms: int) -> None:
        self._received(self.driver.pop(count, invisible_ms))

    @rule(count=st.integers(1, 6))
    def fail(self, count: int) -> None:
        self.send(2)
        self.pop(count, 100)
        self.driver.advance(100)

    @rule(count=st.integers(1, 4))
    def ack(self, count: int) -> None:
        held = [told for told in self.told.values() if told.handle]
        for told in self.rng.sample(held, min(count, len(held))):
            live = self._now() < told.held_until_ms
            (outcome,) = self.driver.ack(told.handle)
            assert (outcome == DONE) == live, told
            told.settled = told.settled or live
            told.let_go()

    @precondition(lambda self: any(told.void for told in self.told.values()))
    @rule()
    def ack_void(self) -> None:
        told = self.rng.choice([told for told in self.told.values() if told.void])
        (outcome,) = self.driver.ack(self.rng.choice(told.void))
        assert outcome != DONE, told

    @rule(where=st.sampled_from(["first", "last", "time"]))
    def reset(self, where: str) -> None:
        request = link.ResetOffsets(group=GROUP, topic=TOPIC)
        request.at = link.OFFSET_AT_MIN if where == "first" else link.OFFSET_AT_MAX
        since_ms = 0 if where == "first" else 1 << 60
        if where == "time":
            request.at = link.OFFSET_AT_TIME
            since_ms = request.time_ms = self.rng.choice(list(self.told.values())).sent_ms
        planned = self._reset(request, dry_run=True)
        assert self._reset(request, dry_run=False) == planned, "the plan was another"
        for told in self.told.values():
            told.again()
            told.settled = told.sent_ms < since_ms

    @rule(queue_id=st.integers(0, QUEUES - 1))
    def reset_forward_in_one_queue(self, queue_id: int) -> None:
        """Retries that wait stay: only what was never handed out is skipped."""
        self.send(2)
        offset = self.ends[queue_id]
        request = link.ResetOffsets(
            group=GROUP, topic=TOPIC, queue_id=queue_id, at=link.OFFSET_AT_MAX
        )
        reply = self._reset(request, dry_run=False)
        assert [queue.to_offset for queue in reply.queues] == [offset]
        for told in self.told.values():
            waits_for_retry = not self.fifo and told.attempt and self._now() >= told.held_until_ms
            if told.place[0] == queue_id and not told.settled and not waits_for_retry:
                from_retry_topic = not self.fifo and told.attempt > 1
                if not from_retry_topic:
                    told.again()
                    told.settled = True

    def _reset(self, request: link.ResetOffsets, *, dry_run: bool) -> link.ResetOffsetsReply:
        request.dry_run = dry_run
        return self.driver.call(reset_offsets=request).reset_offsets

    @rule(ms=st.sampled_from([1, 100, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    @rule()
    def crash(self) -> None:
        self.driver.crash(self.rng)

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def counts_agree(self) -> None:
        table = self.driver.broker.state.lease_state.table
        assert table.live_count == sum(len(queue.leases) for queue in table.queues.values())

    def _received(self, messages: list[Popped]) -> None:
        for message in messages:
            told = self.told[message.body.decode()]
            assert not told.settled, f"{told} came again"
            assert self._now() >= told.held_until_ms, f"{told} is held"
            assert message.delivery_attempt == told.attempt + 1, told
            told.let_go()
            told.attempt += 1
            told.handle = message.handle
            told.held_until_ms = message.receipt.pop_time_ms + message.receipt.invisible_ms

    def _drain(self) -> None:
        for _ in range(200):
            self.driver.advance(60_000)
            messages = self.driver.pop(32, 1_000)
            self._received(messages)
            for message in messages:
                told = self.told[message.body.decode()]
                assert self.driver.ack(message.handle) == [DONE], told
                told.settled = True
            if not messages and not self.driver.broker.state.lease_state.table.live_count:
                break
        missing = [told for told in self.told.values() if not told.settled]
        assert not missing, f"lost: {missing}"

    def _now(self) -> int:
        return self.driver.clock.now_ms()


ResetMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)
TestReset = ResetMachine.TestCase
