"""A broker's life at random: everything that leaves a record, in any order. A seed repeats it."""

import random
from collections.abc import Callable

from harness.broker import EngineDriver
from harness.broker_calls import Popped
from harness.names import GROUP, TOPIC

from popmq_common.errors import PopMQError
from popmq_common.records.names import dead_letter_topic
from popmq_internal.v1 import link_pb2 as link

MAX_ATTEMPTS = 2
TEXTS = ("", "no", "später", "x" * 40)


class History:
    def __init__(self, driver: EngineDriver, seed: int, *, fifo: bool = False) -> None:
        self._driver = driver
        self._fifo = fifo
        self._rng = random.Random(seed)
        self._held: list[Popped] = []
        self._halves: list[tuple[int, int]] = []
        self._later: list[tuple[str, int]] = []
        self._count = 0
        self._steps: list[Callable[[], object]] = [
            *[self._send] * 6,
            *[self._pop] * 4,
            *[self._ack] * 4,
            self._change,
            self._nack,
            self._nack,
            self._send_later,
            self._recall,
            self._half,
            self._end,
            self._redrive,
            self._reset,
            *[self._advance] * 3,
        ]
        driver.make(max_attempts=MAX_ATTEMPTS, fifo=fifo)

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            try:
                self._rng.choice(self._steps)()
            except PopMQError:
                continue  # an old handle, a transaction that is settled: refused, nothing written

    def crash(self) -> None:
        self._driver.crash(self._rng)
        self._held, self._halves, self._later = [], [], []

    def _body(self) -> str:
        self._count += 1
        return f"{self._count}-{'m' * self._rng.randrange(60)}"

    def _send(self) -> None:
        tag = self._rng.choice([None, "a", "b"])
        message_group = self._rng.choice(["", "c", "d", "e"]) if self._fifo else ""
        self._driver.send(self._body(), tag, message_group)

    def _pop(self) -> None:
        count, invisible_ms = self._rng.randint(1, 8), self._rng.choice([500, 5_000, 60_000])
        self._held += self._driver.pop(count, invisible_ms)

    def _some(self) -> list[str]:
        self._rng.shuffle(self._held)
        cut = min(len(self._held), self._rng.randint(1, 4))
        taken, self._held = self._held[:cut], self._held[cut:]
        return [message.handle for message in taken]

    def _ack(self) -> None:
        if self._held:
            self._driver.ack(*self._some())

    def _change(self) -> None:
        if self._held:
            self._driver.change(self._some()[0], self._rng.choice([0, 1_000, 30_000]))

    def _nack(self) -> None:
        if self._held:
            kind = self._rng.choice(
                [link.NACK_KIND_COUNTED, link.NACK_KIND_UNCOUNTED, link.NACK_KIND_FATAL]
            )
            delay_ms, reason = self._rng.choice([0, 2_000]), self._rng.choice(TEXTS)
            self._driver.nack(*self._some(), kind=kind, delay_ms=delay_ms, reason=reason)

    def _send_later(self) -> None:
        body = self._body()
        self._later.append((body, self._driver.send_later(body, self._rng.randint(1, 20_000))))

    def _recall(self) -> None:
        if self._later:
            self._driver.recall(*self._later.pop())

    def _half(self) -> None:
        self._halves.append(self._driver.half(self._body()))

    def _end(self) -> None:
        if self._halves:
            half = self._halves.pop(self._rng.randrange(len(self._halves)))
            self._driver.end(half, commit=self._rng.random() < 0.6)

    def _redrive(self) -> None:
        if dead_letter_topic(GROUP) in self._driver.broker.state.catalog_state.topics:
            self._driver.redrive(count_max=self._rng.randint(1, 3))

    def _reset(self) -> None:
        if self._rng.random() < 0.3:
            request = link.ResetOffsets(group=GROUP, topic=TOPIC, offset=0)
            self._driver.call(reset_offsets=request)

    def _advance(self) -> None:
        self._driver.advance(self._rng.choice([10, 1_000, 10_000]))
