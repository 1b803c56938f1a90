"""The queue lock in any history: consumers that ask, fall silent, lose answers, die and leave, a
clock that jumps back. Never do two of them believe that they have one queue, and what nobody has
can be had.

A consumer believes for half of the lock's life since it *sent* its question, as the SDK does
(popmq/pull/queue_lock.py); the broker counts from when the question *came*.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.queue_lock import QueueLocks

LIFE_MS = 60_000
TRUSTED_MS = LIFE_MS // 2
CLIENTS = ("one", "two", "three")
KEYS = tuple(QueueKey("g", "t", i) for i in range(2))
clients, keys = st.sampled_from(CLIENTS), st.sampled_from(KEYS)


class QueueLockMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.locks = QueueLocks(LIFE_MS)
        self.now_ms = 0
        """What really passes; consumers measure it by their monotonic clocks."""
        self.clock_ms = 1_000_000
        """What the broker's clock says; it may be set back."""
        self.granted: dict[tuple[str, QueueKey], int] = {}
        """Until when a consumer believes that it has the queue."""
        self.until_ms: dict[QueueKey, int] = {}
        """The latest that the broker may keep it for somebody who says nothing."""

    @rule(client=clients, key=keys, on_its_way_ms=st.integers(0, 5_000), lost=st.booleans())
    def ask(self, client: str, key: QueueKey, on_its_way_ms: int, lost: bool) -> None:
        sent_ms = self.now_ms
        self.pass_time(on_its_way_ms)
        others = self.locks.holder(key, self.clock_ms)
        granted = self.locks.lock(key, client, self.clock_ms)
        assert granted == (others in ("", client))
        if granted:
            self.until_ms[key] = self.now_ms + LIFE_MS
        if granted and not lost:
            self.granted[client, key] = sent_ms + TRUSTED_MS
        if not granted:
            assert not self.believes(client, key)

    @rule(client=clients, key=keys)
    def give_back(self, client: str, key: QueueKey) -> None:
        """First it stops, then it says so."""
        self.granted.pop((client, key), None)
        self.locks.unlock(key, client)

    @rule(client=clients)
    def leave(self, client: str) -> None:
        self.granted = {at: until for at, until in self.granted.items() if at[0] != client}
        self.locks.leave(client, "g", "t")
        assert all(self.locks.holder(key, self.clock_ms) != client for key in KEYS)

    @rule(client=clients)
    def die(self, client: str) -> None:
        self.granted = {at: until for at, until in self.granted.items() if at[0] != client}

    @rule(ms=st.sampled_from([1, 999, 20_000, 29_999, 30_000, 60_000]))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.clock_ms += ms

    @rule(ms=st.integers(1, 500_000))
    def clock_is_set_back(self, ms: int) -> None:
        self.clock_ms -= ms
        for key in KEYS:  # from when it looks
            self.locks.holder(key, self.clock_ms)
            self.until_ms[key] = self.now_ms + LIFE_MS

    def believes(self, client: str, key: QueueKey) -> bool:
        return self.granted.get((client, key), -1) > self.now_ms

    @invariant()
    def one_at_most(self) -> None:
        for key in KEYS:
            believing = [client for client in CLIENTS if self.believes(client, key)]
            assert len(believing) <= 1
            assert all(self.locks.holder(key, self.clock_ms) == client for client in believing)

    @invariant()
    def nobody_has_it_for_ever(self) -> None:
        for key in KEYS:
            if self.now_ms >= self.until_ms.get(key, 0):
                assert self.locks.holder(key, self.clock_ms) == ""


QueueLockMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestQueueLock = QueueLockMachine.TestCase
