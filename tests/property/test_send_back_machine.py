"""Send-backs over restarts and crashes at any moment: what was answered is redelivered with its
attempt counted, each copy once, never before its level's delay is over, and after the last attempt
it is among the dead letters, once."""

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from harness.broker import QUICK_DISK, EngineDriver
from harness.names import GROUP, TOPIC
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from popmq_common.records.names import classic_retry_topic
from popmq_common.records.record import Record, decode, own_offset
from popmq_internal.v1 import link_pb2 as link

LEVELS_MS = (1_000, 5_000, 10_000, 30_000, 60_000)
RETRIES = classic_retry_topic(GROUP)
ATTEMPTS = 4


class Copy(NamedTuple):
    body: str
    attempt: int
    due_ms: int
    certain: bool
    """Its send-back was answered; else it may exist or not."""


class SendBackMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        levels = " ".join(f"{ms // 1000}s" for ms in LEVELS_MS)
        self.driver = EngineDriver(Path(self._folder.name), delay_levels=levels)
        self.driver.make(queues=1, max_attempts=ATTEMPTS)
        self.count = 0
        self.copies: list[Copy] = []
        self.dead: Counter[str] = Counter()
        self.perhaps_dead: Counter[str] = Counter()
        self.send()

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            self.driver.advance(LEVELS_MS[-1])
            self.look()
        finally:
            self.driver.close()
            self._folder.cleanup()

    @rule()
    def send(self) -> None:
        self.driver.send(str(self.count))
        self.count += 1

    @rule(level=st.sampled_from([0, 0, 0, 1, 4, 9, -1]), counted=st.booleans())
    def original_fails(self, level: int, counted: bool) -> None:
        offset = self.rng.randrange(self.count)
        self._fails(TOPIC, offset, str(offset), 1, level, counted=counted)

    @precondition(lambda self: self.copies)
    @rule(level=st.sampled_from([0, 0, 0, 2]), answered=st.booleans())
    def copy_fails(self, level: int, answered: bool) -> None:
        records = self._pulled()
        if records:
            one = self.rng.choice(records)
            attempt = one.reconsume_times + 1
            body, offset = one.body.decode(), one.queue_offset
            self._fails(RETRIES, offset, body, attempt, level, answered=answered)

    def _fails(
        self,
        topic: str,
        offset: int,
        body: str,
        attempt: int,
        level: int,
        *,
        counted: bool = True,
        answered: bool = True,
    ) -> None:
        request = link.SendBack(
            group=GROUP, topic=topic, offset=offset, level=level, uncounted=not counted
        )
        now_ms = self.driver.clock.now_ms()
        if answered:
            reply = self.driver.call(send_back=request).send_back
            assert bool(reply.level) == (reply.topic == RETRIES)
        else:
            self.driver.start(send_back=request)
        if level < 0 or (counted and attempt >= ATTEMPTS):
            (self.dead if answered else self.perhaps_dead)[body] += 1
        else:
            waits = min(level or 2 + attempt, len(LEVELS_MS))
            due_ms = now_ms + LEVELS_MS[waits - 1]
            self.copies.append(Copy(body, attempt + counted, due_ms, answered))
        if not answered:
            self.crash()

    @rule(ms=st.sampled_from([1, 999, 1_000, 4_000, 10_000, 30_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)
        self.look()

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    @rule()
    def crash(self) -> None:
        self.driver.crash(self.rng)

    @rule()
    def look(self) -> None:
        self.driver.deliver_due()
        now_ms = self.driver.clock.now_ms()
        seen = Counter((one.body.decode(), one.reconsume_times + 1) for one in self._pulled())
        due = [copy for copy in self.copies if copy.due_ms <= now_ms]
        most = Counter((copy.body, copy.attempt) for copy in due)
        least = Counter((copy.body, copy.attempt) for copy in due if copy.certain)
        assert seen <= most, "more often, or earlier, than it was sent back"
        assert least <= seen, "lost"
        letters = self.driver.dead_letters(whole=True, count_max=1_000).letters
        found = Counter(letter.body.decode() for letter in letters)
        assert self.dead <= found <= self.dead + self.perhaps_dead

    def _pulled(self) -> list[Record]:
        if RETRIES not in self.driver.broker.state.catalog_state.topics:
            return []
        found: list[Record] = []
        while True:
            pull = link.Pull(group=GROUP, topic=RETRIES, offset=len(found), batch_size=32)
            records = self.driver.call(pull=pull).pull.records
            if not records:
                return found
            for raw in records:
                found.append(decode(raw, where="pull", log_offset=own_offset(raw)))


SendBackMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=min(15, settings.default.max_examples)
    if settings.default and settings.default.derandomize
    else 500,
    stateful_step_count=25,
    deadline=None,
)
TestSendBack = SendBackMachine.TestCase
