"""The state machine once more, for a FIFO group: all promises, and I6, order in a message group."""

import random
import tempfile
from typing import Any

from harness.broker import QUICK_DISK
from harness.broker_calls import Popped, send_body
from harness.broker_machine import SENT_FIRST, BrokerMachine
from harness.told import Told
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

MESSAGE_GROUPS = "abc"


class FifoMachine(BrokerMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        self.driver = self._driver()
        self.driver.make(fifo=True, max_attempts=1_000)
        self.told: dict[str, Told] = {}
        self.sent = 0
        self.lines: dict[str, list[Told]] = {name: [] for name in MESSAGE_GROUPS}
        self.send(SENT_FIRST)

    @rule(count=st.integers(1, 6))
    def send(self, count: int) -> None:
        for _ in range(count):
            body = self._next_body()
            self.driver.send(body, message_group=body[0])
            self._note(Told(body))

    def _next_body(self) -> str:
        return self.rng.choice(MESSAGE_GROUPS) + super()._next_body()

    def _note(self, told: Told) -> None:
        self.told[told.body] = told
        self.lines[told.body[0]].append(told)

    def _send_body(self, body: str) -> dict[str, Any]:
        return send_body(body, message_group=body[0], queue_id=ord(body[0]) % 2)

    def _lives_again(self, told: Told) -> None:
        """It stands behind all others now."""
        super()._lives_again(told)
        self.lines[told.body[0]].remove(told)
        self.lines[told.body[0]].append(told)

    def _unanswered_send(self) -> None:
        super()._unanswered_send()
        told = next(reversed(self.told.values()))
        self.lines[told.body[0]].append(told)

    @rule(count=st.integers(1, 8), invisible_ms=st.sampled_from([100, 1_000, 10_000]))
    def pop_twice(self, count: int, invisible_ms: int) -> None:
        """The first answer is lost; the client asks again, and gets just that, if it got any."""
        attempt_id = f"attempt-{self.rng.random()}"
        first = self.driver.pop(count, invisible_ms, attempt_id=attempt_id, by_runs=True)
        second = self.driver.pop(count, invisible_ms, attempt_id=attempt_id)
        if first:
            assert sorted(one.body for one in second) == sorted(one.body for one in first)
        self._received(second)

    def _received(self, messages: list[Popped]) -> None:
        came = {message.body.decode() for message in messages}
        for name in MESSAGE_GROUPS:
            numbers = [
                self._number(message) for message in messages if message.body[:1] == name.encode()
            ]
            assert numbers == sorted(numbers), f"out of order: {numbers}"
            if numbers:
                self._check_turn(name, numbers[-1], came)
        super()._received(messages)

    def _number(self, message: Popped) -> int:
        body = message.body.decode()
        return self.lines[body[0]].index(self.told[body])

    def _check_turn(self, name: str, last: int, came: set[str]) -> None:
        for number, told in enumerate(self.lines[name]):
            if told.body in came:
                continue
            held = self._now() < told.held_until_ms and not told.change_unknown
            settled = told.acked or told.ack_unknown or told.dead
            assert settled or not held, f"{told} is still held"
            if number < last:
                assert settled or not told.certain, f"{told} was passed over"

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def counts_agree(self) -> None:
        table = self.driver.broker.state.lease_state.table
        assert table.live_count == sum(len(queue.leases) for queue in table.queues.values())
        for queue in table.queues.values():
            order = queue.fifo_queue
            assert order is not None
            assert queue.committed <= order.first <= queue.position
            held = {offset for offset, entry in order.entries.items() if entry.held}
            assert held == set(queue.leases)
            assert all(offset >= order.first for offset in order.entries)


FifoMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)


def test_t52_each_message_group_is_one_line_through_restarts_crashes_and_retries() -> None:
    run_state_machine_as_test(FifoMachine, settings=FifoMachine.TestCase.settings)
    assert FifoMachine.delivered > 100
