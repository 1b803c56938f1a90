"""One life of the simulated world from a seed: dangers, then quiet, and everything must come.

A run of many steps is many lives with seeds that follow each other, so a failure repeats in
seconds: its message names the life's own seed.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from sim.clients import Clients
from sim.loop import SimLoop
from sim.quiet import Quiet
from sim.violation import Violation
from sim.world import World

LIFE_STEPS = 5_000
TASKS_MAX = 40
EVENTS_SHOWN = 30
PAUSES_S = [0.0] * 12 + [0.001] * 6 + [0.01] * 3 + [0.3]
LONG_PAUSE_S = 15.0


class Summary(NamedTuple):
    steps: int
    sent: int
    deliveries: int
    acks: int
    dead_letters: int
    starts: int

    def __add__(self, other: object) -> "Summary":
        assert isinstance(other, Summary)
        return Summary(*(a + b for a, b in zip(self, other, strict=True)))


class Life:
    def __init__(self, seed: int, steps: int, loop: SimLoop) -> None:
        self.world = World(seed, loop)
        self.clients = Clients(self.world)
        self._steps = steps
        self._random = self.world.random
        self._tasks: set[asyncio.Task[None]] = set()
        self._backlog = 0
        self._remaking = False
        self.step = 0
        self.happened: deque[tuple[int, str]] = deque(maxlen=EVENTS_SHOWN)

    async def run(self) -> Summary:
        world = self.world
        await world.start()
        await world.make()
        weights = world.plan.weights
        actions = self._random.choices(list(weights), list(weights.values()), k=self._steps)
        for self.step, action in enumerate(actions):
            await self._do(action)
            pause_s = self._random.choice(PAUSES_S)
            if self._random.random() < 0.002:
                pause_s = LONG_PAUSE_S
            await asyncio.sleep(pause_s)
            self._check()
        await self._settle()
        await Quiet(world, self.clients).run()
        self._check()
        world.read_dead_letters()
        await world.restart()
        await world.stop()
        return self._summary()

    def _summary(self) -> Summary:
        book = self.world.book
        counts = (book.deliveries, book.acks_done, book.dead_letters)
        return Summary(self._steps, len(book.messages), *counts, book.starts)

    def _check(self) -> None:
        if self.world.failed is not None:
            raise self.world.failed

    async def _do(self, action: str) -> None:
        own = getattr(self, f"_{action}", None)
        if own is not None:
            self._note(action)
            await own()
        elif len(self._tasks) < TASKS_MAX:
            if action.startswith("send") and self._backlog > self.world.plan.backlog_max:
                return
            self._begin(getattr(self.clients, action)())

    def _note(self, what: str) -> None:
        if what != "scrape":
            self.happened.append((self.world.clock.now_ms(), what))

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.fail(error)

    async def _settle(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
            self._check()

    # --- what happens to the broker and between it and its proxies ---

    async def _cut(self) -> None:
        self._random.choice(self.world.proxies).cut()

    async def _restart(self) -> None:
        await self.world.restart()

    async def _kill(self) -> None:
        await self.world.die(power=False)

    async def _crash(self) -> None:
        await self.world.die(power=True)

    async def _write_offsets(self) -> None:
        if self.world.broker is not None:
            await self.world.broker.offsets.write()

    async def _checkpoint(self) -> None:
        if self.world.broker is not None:
            await self.world.broker.state.runtime.store.checkpoint()

    async def _scrape(self) -> None:
        self.world.read_dead_letters()
        self.world.check_counts()
        book = self.world.book
        self._backlog = max(len(book.missing(group)) for group in book.groups.values())

    async def _remake_topic(self) -> None:
        if not self._remaking:
            topic = self._random.choice(list(self.world.book.topic_lives))
            self._begin(self._remake(topic, self.world.remake_topic))

    async def _remake_group(self) -> None:
        if not self._remaking:
            plan = self._random.choice(self.world.plan.groups)
            self._begin(self._remake(plan.name, self.world.remake_group))

    async def _remake(self, name: str, how: Callable[[str], Any]) -> None:
        quakes = self.world.quakes
        self._remaking = True
        quakes[name] = quakes.get(name, 0) + 1
        book = self.world.book
        if name in book.groups:
            book.groups[name].lost_before_quake = book.groups[name].lost_pops
        book.topic_goes(name)
        self._note(f"deleting {name}")
        await how(name)
        self._note(f"made {name}")
        self.world.read_dead_letters()
        quakes[name] += 1
        self._remaking = False


def live(seed: int, steps: int) -> Summary:
    """One life. Raises `Violation`, with what is needed to repeat and to understand it."""
    loop = SimLoop()
    life = None
    with ExitStack() as patches:
        try:
            asyncio.set_event_loop(loop)
            life = Life(seed, steps, loop)
            for one in life.world.patches():
                patches.enter_context(one)
            return loop.run_until_complete(life.run())
        except Violation as violation:
            assert life is not None
            raise _explained(violation, life, seed, steps) from violation
        except Exception as crash:
            assert life is not None
            found = Violation("crash", repr(crash))
            raise _explained(found, life, seed, steps) from crash
        finally:
            _close(loop)


def _close(loop: SimLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    with suppress(Exception):
        loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5))
    asyncio.set_event_loop(None)
    loop.close()
    gc.collect()


def _explained(violation: Violation, life: Life, seed: int, steps: int) -> Violation:
    message = life.world.book.messages.get(violation.message_id)
    lines = [f"step {life.step}: {violation.args[0].partition(': ')[2]}"]
    if message is not None:
        place = f"{message.topic}/{message.queue_id}@{message.offset}"
        lines.append(f"{message.id} of {place}, message group {message.message_group!r}:")
        events = sorted([*life.happened, *message.events], key=lambda one: one[0])
        lines += [f"  {at_ms}  {text}" for at_ms, text in events[-EVENTS_SHOWN:]]
    lines.append(f"again: make sim SEED={seed} STEPS={steps}")
    return Violation(violation.invariant, "\n".join(lines), violation.message_id)


def run(seed: int, steps: int, told: Callable[[int, Summary], None] = lambda *_: None) -> Summary:
    """Lives of up to `LIFE_STEPS` steps with seeds from `seed` on. Raises `Violation`."""
    total = Summary(0, 0, 0, 0, 0, 0)
    while total.steps < steps:
        summary = live(seed, min(LIFE_STEPS, steps - total.steps))
        told(seed, summary)
        total += summary
        seed += 1
    return total
