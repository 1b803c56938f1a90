"""Deliveries as a broker might make them, in one process and from one seed: many points of death in
little time. A death is an error that nothing behind it can answer (`death.py`)."""

import asyncio
import random
import time
from collections import deque

from idempotence.death import Died, Fate
from idempotence.outcome import Outcome
from idempotence.plan import Action, Copy, make
from idempotence.strategies import Strategy

from popmq import ReceivedMessage
from popmq.idempotence import Fenced
from popmq.outcome import Retry

WORKERS = 24
WORKERS_SQLITE = 6  # it has one writer at a time, and its waiters sleep
TURNED_AWAY_S = 0.05
AGAIN_WITHIN = 100  # the next delivery comes among so many others
IDLE_S = 0.005  # all that is left waits for its time
PLACES_BACK = 200  # one turned away goes behind those: what it waits for is among them
DELIVERIES_PER_MESSAGE_MAX = 200  # more than that: it hangs


class Simulator:
    def __init__(self, strategy: Strategy, copies: list[Copy], outcome: Outcome, seed: int) -> None:
        self.strategy, self.outcome = strategy, outcome
        self._rng = random.Random(seed + 1)
        self._waiting = deque((copy, 1) for copy in copies)
        self._under_way = 0
        self._deliveries_max = DELIVERIES_PER_MESSAGE_MAX * len(copies)

    async def run(self, workers: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while self._waiting or self._under_way:
            if not self._waiting:
                await asyncio.sleep(IDLE_S)
                continue
            copy, number = self._waiting.popleft()
            self._under_way += 1
            await self._deliver(copy, number)
            self._under_way -= 1

    async def _deliver(self, copy: Copy, number: int) -> None:
        action = copy.action(number)
        again = number < len(copy.actions)
        if action in (Action.OVERLAP, Action.SLOW):
            self._waiting.appendleft((copy, number + 1))
            again = False
        self.outcome.deliveries += 1
        assert self.outcome.deliveries < self._deliveries_max, f"{copy.key} is not done"
        try:
            await self._handle(copy.received(self.strategy.run, number), action)
        except (Retry, Fenced):
            self.outcome.turned_away += 1
            if action not in (Action.OVERLAP, Action.SLOW):  # their next delivery sees to it
                self._later(copy, number)
            return
        except Died:
            self.outcome.deaths += 1
            self.outcome.deaths_inside += action is Action.DIES_INSIDE
            if not self.strategy.survives:
                self.strategy.make()
        if again:
            self._waiting.insert(self._rng.randrange(AGAIN_WITHIN), (copy, number + 1))

    def _later(self, copy: Copy, number: int) -> None:
        def again() -> None:
            self._under_way -= 1
            self._waiting.insert(PLACES_BACK, (copy, number))

        self._under_way += 1
        asyncio.get_running_loop().call_later(TURNED_AWAY_S, again)

    async def _handle(self, message: ReceivedMessage, action: Action) -> None:
        fate = Fate(action, pause_s=self.strategy.pause_s)
        if not await self.strategy.handle(message, fate):
            self.outcome.suppressed += 1
        await fate.after()


async def simulate(
    strategy: Strategy, outcome: Outcome, seed: int, *, workers: int, deaths: bool = True
) -> Outcome:
    await strategy.prepare(outcome.messages)
    copies = make(strategy.run, seed, outcome.messages, deaths=deaths)
    began_s, cpu_s = time.monotonic(), time.process_time()
    await Simulator(strategy, copies, outcome, seed).run(workers)
    outcome.seconds = round(time.monotonic() - began_s, 1)
    outcome.cpu_s = round(time.process_time() - cpu_s, 1)
    for holder in ("inbox", "guard", "lock", "rows"):
        counts = getattr(getattr(strategy, holder, None), "counts", None)
        if counts is not None:
            outcome.counts[holder] = counts.snapshot()
            outcome.late += counts.late
    outcome.judge(await strategy.effects(), {copy.key for copy in copies})
    return outcome
