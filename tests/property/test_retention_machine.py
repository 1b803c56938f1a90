"""Retention at random times in a random history, beside a model that knows when it may delete.

Sends, pops, acks, changes, time, rounds of retention, pressure of the disk, restarts and crashes in
any order. At any time

    - what is held, and was not acked, is there: it is redelivered, unless the disk was too full
    - what is younger than the retention time is there, unless the disk filled
    - nothing comes after its ack, nor twice at a time
    - stored = settled + ready + in flight + delayed + blocked + expired, and none is negative
    - what was sent is either acked, or comes, or is counted as expired: nothing vanishes unseen

The count is exact but for crashes: one between the decision and the offsets file may leave a
message out of `expired` that an earlier round took.
"""

import random
import tempfile
from pathlib import Path

import pytest
from harness.broker import QUICK_DISK, EngineDriver

from popmq_broker.core.store.retention import DiskState
from popmq_broker.engine.journal.counts import counts
from popmq_internal.v1 import link_pb2 as link

RETENTION_MS = 600_000
STEPS = 60
RUNS = 12


class History:
    def __init__(self, seed: int, folder: Path, *, fifo: bool) -> None:
        self.random = random.Random(seed)
        self.fifo = fifo
        self.driver = EngineDriver(
            folder,
            segment_bytes=2_048,
            retention_ms=RETENTION_MS,
            retention_files_max=self.random.choice([1, 10]),
            disk_clean_percent=85,
            disk_refuse_percent=90,
        )
        self.driver.make(queues=2, max_attempts=1_000, fifo=fifo)
        self.driver.pop()  # what goes before a group has ever received is not counted for it
        self.driver.run(self.driver.broker.offsets.write())
        self.sent_ms: dict[str, int] = {}
        self.acked: set[str] = set()
        self.held: dict[str, tuple[str, int]] = {}
        """Body → (handle, until when)."""
        self.pressed_ms = -1
        """When the disk was last so full that files went early."""
        self.forced = False
        self.deleted = 0

    def now(self) -> int:
        return self.driver.clock.now_ms()

    def send(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            body = f"m{len(self.sent_ms)}"
            self.driver.send(body, message_group=self.random.choice("ab") if self.fifo else "")
            self.sent_ms[body] = self.now()

    def pop(self) -> None:
        invisible_ms = self.random.choice([1_000, 30_000, 2 * RETENTION_MS])
        for message in self.driver.pop(self.random.randint(1, 6), invisible_ms):
            body = message.body.decode()
            assert body not in self.acked, f"{body} came after its ack"
            assert body not in self.held or self.held[body][1] <= self.now(), f"{body} is held"
            self.held[body] = (message.handle, self.now() + invisible_ms)

    def ack(self) -> None:
        for body, (handle, until_ms) in list(self.held.items()):
            if self.random.random() < 0.5:
                (outcome,) = self.driver.ack(handle)
                live = self.now() < until_ms
                if outcome == link.LEASE_OUTCOME_DONE:
                    assert live
                    self.acked.add(body)
                assert outcome == link.LEASE_OUTCOME_DONE or not live or self.forced, body
                del self.held[body]

    def pass_time(self) -> None:
        self.driver.advance(self.random.choice([10, 1_000, 60_000, RETENTION_MS // 2]))

    def retain(self) -> None:
        self.deleted += self.driver.retain()

    def press(self) -> None:
        used_percent = self.random.choice([87, 95])
        self.driver.fill_disk(used_percent)
        self.pressed_ms = self.now()
        self.forced = self.forced or used_percent == 95
        self.retain()
        self.driver.fill_disk(50)
        assert self.driver.broker.state.runtime.store.disk.state is DiskState.OK

    def restart(self) -> None:
        self.driver.restart()

    def crash(self) -> None:
        self.driver.crash(self.random)

    def check_counts(self) -> None:
        for row, found in counts(
            self.driver.broker.state.runtime,
            self.driver.broker.state.catalog_state,
            self.driver.broker.state.lease_state,
        ).items():
            parts = found[1:]
            assert found.stored == sum(parts), (row, found)
            assert min(parts) >= 0, (row, found)

    def run(self) -> None:
        steps = [self.send] * 4 + [self.pop] * 3 + [self.ack] * 2 + [self.pass_time] * 3
        steps += [self.retain] * 3 + [self.restart, self.crash]
        if self.random.random() < 0.5:
            steps.append(self.press)
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.check_counts()
        self.check_end()

    def check_end(self) -> None:
        """Let all leases end, without retention, and take what comes."""
        found: set[str] = set()
        state = self.driver.broker.state
        before = {key: queue.expired for key, queue in state.lease_state.table.queues.items()}
        self.driver.advance(3 * RETENTION_MS)
        while messages := self.driver.pop(32, 12 * 3_600_000):
            for message in messages:
                body = message.body.decode()
                assert body not in self.acked, f"{body} came after its ack"
                assert body not in found, f"{body} came twice"
                found.add(body)
            if self.fifo:
                self.driver.ack(*(message.handle for message in messages))
        self.check_counts()
        missing = self.sent_ms.keys() - self.acked - found
        expired = sum(queue.expired for queue in state.lease_state.table.queues.values())
        assert len(missing) <= expired, f"{sorted(missing)} vanished, {expired} expired: {before}"
        oldest_ms = self.now() - 3 * RETENTION_MS - RETENTION_MS
        young = [b for b in missing if self.sent_ms[b] > max(oldest_ms, self.pressed_ms)]
        assert not young, f"{young} were deleted too early"


@pytest.mark.parametrize("fifo", [False, True])
def test_retention_in_any_history(fifo: bool) -> None:
    first = random.randrange(2**32)
    deleted = 0
    for seed in range(first, first + RUNS):
        print(f"seed {seed}")
        with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
            history = History(seed, Path(folder), fifo=fifo)
            try:
                history.run()
            finally:
                history.driver.close()
            deleted += history.deleted
    assert deleted, "nothing was ever deleted"
