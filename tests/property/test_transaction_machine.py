"""Transactions in any order, over restarts and crashes, also in the middle of a call.

What was answered "committed" is delivered once, what was answered "rolled back" never; what is not
settled is asked about, after its immunity, once per interval, whatever restarts; each ends in one
way, and everybody is told the same.
"""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.broker import QUICK_DISK, EngineDriver
from harness.broker_calls import Popped, end_body, send_body
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from popmq_common.errors import AlreadySettled, InvalidTransactionId
from popmq_common.records.record import decode, own_offset
from popmq_internal.v1 import link_pb2 as link

IMMUNITY_MS, INTERVAL_MS, CHECKS_MAX, MOVE_MS = 1_000, 5_000, 4, 8_000
GIVEN_UP = "given up"
OTHER = "-"


@dataclass
class Told:
    """What the outside knows of one transaction."""

    body: str
    place: tuple[int, int] | None
    """None: its send was not answered; it may exist or not."""
    sent_ms: int
    outcome: str = ""
    """As it was answered."""
    perhaps: frozenset[str] = frozenset()
    """As it was asked for, without an answer: a crash may have kept any of them."""
    delivered: bool = False
    checks: int = 0
    checks_known: int = 0
    """So many are not forgotten by a crash …"""
    checks_saved: int = 0
    """… these not by another one."""
    asked_ms: int = -INTERVAL_MS
    crashed: bool = False
    """Since it was asked about: the last question may be forgotten."""

    def may_be(self, outcome: str) -> bool:
        return self.outcome == outcome or (not self.outcome and outcome in self.perhaps)


class TransactionMachine(RuleBasedStateMachine):
    seen: ClassVar[set[str]] = set()
    """Outcomes of all histories together."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        self.driver = EngineDriver(
            Path(self._folder.name),
            transaction_immunity_ms=IMMUNITY_MS,
            transaction_check_interval_ms=INTERVAL_MS,
            transaction_checks_max=CHECKS_MAX,
            half_move_ms=MOVE_MS,
        )
        self.driver.make()
        self.told: dict[str, Told] = {}
        self.send(2)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            self._drain()
        finally:
            self.driver.close()
            self._folder.cleanup()

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        for _ in range(count):
            body = self._next_body()
            self.told[body] = Told(body, self.driver.half(body), self._now())

    @rule(size=st.integers(1, 3_000))
    def send_normal(self, size: int) -> None:
        """The log grows; files become old."""
        self.driver.send(OTHER * size)

    @rule(pick=st.randoms(use_true_random=False), commit=st.booleans())
    def end(self, pick: random.Random, commit: bool) -> None:
        known = [told for told in self.told.values() if told.place is not None]
        self._end(pick.choice(known), commit=commit)

    def _end(self, told: Told, *, commit: bool) -> None:
        assert told.place is not None
        wanted = "committed" if commit else "rolled back"
        try:
            self.driver.end(told.place, commit=commit)
        except AlreadySettled as refused:
            before = refused.fields["outcome"]
            assert before != wanted
            assert told.may_be(before) or self._may_be_given_up(told, before), told
            told.outcome = before
        else:
            assert told.outcome in ("", wanted), f"{told} is now {wanted}"
            told.outcome = wanted
        self.seen.add(told.outcome)

    def _may_be_given_up(self, told: Told, outcome: str) -> bool:
        return outcome == GIVEN_UP and not told.outcome and told.checks >= CHECKS_MAX

    @rule()
    def poll(self) -> None:
        """As each proxy does."""
        for half in self.driver.poll_checks():
            record = decode(half.record, where="check", log_offset=own_offset(half.record))
            told = self.told[record.body.decode()]
            place = (half.half_offset, half.log_offset)
            assert told.place in (None, place)
            assert not told.outcome, f"{told} is asked about"
            assert self._now() >= told.sent_ms + IMMUNITY_MS
            if not told.crashed:
                assert self._now() >= told.asked_ms + INTERVAL_MS, f"{told} is asked too often"
            assert told.checks_known < CHECKS_MAX
            told.place, told.perhaps = place, frozenset()
            told.checks += 1
            told.checks_known += 1
            told.asked_ms, told.crashed = self._now(), False

    @rule()
    def nobody_knows(self) -> None:
        """Producers are asked until it is given up."""
        for _ in range(CHECKS_MAX):
            self.driver.advance(INTERVAL_MS)
            self.poll()

    @rule()
    def pop(self) -> None:
        while messages := self.driver.pop(32, 600_000):
            self._received(messages)

    def _received(self, messages: list[Popped]) -> None:
        for message in messages:
            body = message.body.decode()
            if body.startswith(OTHER):
                continue
            told = self.told[body]
            assert not told.delivered, f"{told} came twice"
            assert told.may_be("committed"), f"{told} came"
            told.delivered, told.outcome = True, "committed"
        self.driver.ack(*(message.handle for message in messages))

    @rule(ms=st.sampled_from([1, 500, 1_000, 5_000, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule()
    def save(self) -> None:
        """As every five seconds."""
        self.driver.run(self.driver.broker.offsets.write())
        self.driver.run(self.driver.broker.checks.save())
        self._checks_are_saved()

    def _checks_are_saved(self) -> None:
        for told in self.told.values():
            told.checks_saved = told.checks_known

    @rule()
    def restart(self) -> None:
        self.driver.restart()
        self._checks_are_saved()

    @rule()
    def crash(self) -> None:
        self._lose_power()

    def _lose_power(self) -> None:
        self.driver.crash(self.rng)
        for told in self.told.values():
            told.crashed = True
            told.checks_known = told.checks_saved

    @rule(pick=st.randoms(use_true_random=False), commit=st.booleans(), asked=st.booleans())
    def crash_in_the_middle(self, pick: random.Random, commit: bool, asked: bool) -> None:
        self.driver.hold_disk()
        if asked:
            self._unanswered_end(pick, commit=commit)
        else:
            body = self._next_body()
            request = send_body(body)
            request["send"].kind = link.SEND_KIND_HALF
            assert not self.driver.start(**request).done(), "answered before it was on disk"
            self.told[body] = Told(body, None, self._now())
        self._lose_power()

    def _unanswered_end(self, pick: random.Random, *, commit: bool) -> None:
        open_ones = [told for told in self.told.values() if told.place and not told.outcome]
        if not open_ones:
            return
        told = pick.choice(open_ones)
        assert told.place is not None
        outcome = "committed" if commit else "rolled back"
        call = self.driver.start(**end_body(told.place, commit=commit))
        if not call.done():
            told.perhaps |= {outcome}
        elif call.exception() is None:  # it was settled so before, as nobody was told
            assert outcome in told.perhaps
        else:
            assert isinstance(call.exception(), AlreadySettled)

    def _next_body(self) -> str:
        return f"m{len(self.told) + 1}"

    def _now(self) -> int:
        return self.driver.clock.now_ms()

    def _drain(self) -> None:
        """Everybody hears how his transaction ended; what is open is asked about until then."""
        self.driver.advance(INTERVAL_MS)
        self.poll()
        for told in self.told.values():
            if told.place is None:
                continue
            if not told.outcome and not told.perhaps and told.checks < CHECKS_MAX:
                assert told.asked_ms > self._now() - INTERVAL_MS, f"{told} is not asked about"
            self._end(told, commit=self.rng.random() < 0.5)
        for told in self.told.values():
            if told.place is not None:
                self._end(told, commit=True)
                self._end(told, commit=False)
        self.restart()
        self.pop()
        missing = [t for t in self.told.values() if t.outcome == "committed" and not t.delivered]
        assert not missing, f"lost: {missing}"
        halves = self.driver.broker.state.halves
        assert all(self.told_of(half.origin_offset).place is None for half in halves)
        request = link.EndTransaction(half_offset=10**6, log_offset=7)
        try:
            self.driver.call(end_transaction=request)
        except InvalidTransactionId:
            return
        raise AssertionError("what never was was settled")

    def told_of(self, origin_offset: int) -> Told:
        found = {told.place[0]: told for told in self.told.values() if told.place}
        return found.get(origin_offset, Told("?", None, 0))


TransactionMachine.TestCase.settings = settings(
    max_examples=settings().max_examples // 2,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def test_no_history_of_transactions_breaks_a_promise() -> None:
    """And they had every outcome: else they ask nothing."""
    run_state_machine_as_test(TransactionMachine, settings=TransactionMachine.TestCase.settings)
    assert {"committed", "rolled back", GIVEN_UP} <= TransactionMachine.seen
