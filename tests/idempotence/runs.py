"""The rows of the table: which there are, and how each is made in a process of its own.

Rows know nothing of each other: each has its own keys, and in SQLite, which has one writer at a
time, its own file. So several run at once, those with the most to do first.
"""

import asyncio
import logging
import multiprocessing
import os
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import uvloop
from harness.processes import Server
from idempotence.death import MortalRedis
from idempotence.killed import with_kills
from idempotence.ledger import connect, prepare
from idempotence.outcome import Outcome
from idempotence.simulator import WORKERS, WORKERS_SQLITE, simulate
from idempotence.strategies import ONCE, REDIS, SQL, InMemory, Stores, Strategy

from popmq.idempotence.sql import SqlInbox

STORES = ("sqlite", "postgres", "mariadb", "redis")
TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB", "redis": "Redis"}
ONCE_IN = "postgres"
BROKER_SHARE = 10
"""The broker delivers a tenth of the messages: its rows wait for leases, they do not work."""
SIMULATED_AT_ONCE = os.cpu_count() or 1
KILLED_AT_ONCE = 3
COSTS = {"States": 2.0, "Versions": 2.0, "Fenced": 2.0, "Unfenced": 2.0}
"""Of a strategy whose deliveries come again for their turn, or need two transactions."""


class Delivery(Enum):
    SIMULATED = "simulator"
    WITHOUT_DEATHS = "simulator, no deaths"
    KILLED = "broker, kill -9"


@dataclass(frozen=True, slots=True)
class Places:
    """What all runs use."""

    endpoint: str
    redis: str
    databases: dict[str, str]
    """Store → URL; SQLite has none."""
    folder: Path


@dataclass(frozen=True, slots=True)
class Run:
    store: str
    kind: type[Strategy]
    delivery: Delivery
    name: str
    """Begins all its keys."""
    messages: int
    seed: int
    kills: int

    @property
    def cost(self) -> float:
        return COSTS.get(self.kind.__name__, 1.0)

    def url(self, places: Places) -> str:
        return places.databases.get(self.store) or sqlite(places.folder / f"{self.name}.db")

    def judged(self) -> Outcome:
        return Outcome(
            self.kind.name,
            TITLES[self.store],
            self.delivery.value,
            self.kind.promise,
            self.messages,
        )

    def broken(self, failed: BaseException) -> Outcome:
        outcome = self.judged()
        outcome.error = "".join(traceback.format_exception(failed))
        return outcome


def planned(stores: Iterable[str], messages: int, seed: int, kills: int) -> list[Run]:
    """In the order of the table. `kills`: per run of the broker; 0: it has none."""
    runs = []
    for store in stores:
        kinds = REDIS if store == "redis" else [*SQL, *(ONCE if store == ONCE_IN else [])]
        for i, kind in enumerate(kinds):
            deliveries = [Delivery.SIMULATED]
            if kind is InMemory:
                deliveries.append(Delivery.WITHOUT_DEATHS)
            if kills:
                deliveries.append(Delivery.KILLED)
            for delivery in deliveries:
                share = BROKER_SHARE if delivery is Delivery.KILLED else 1
                name = f"{store}-{i}-{delivery.name[0].lower()}"
                count = max(1, messages // share)
                runs.append(Run(store, kind, delivery, name, count, seed, kills))
    return runs


def made(runs: list[Run], places: Places, told: Callable[[Outcome], None]) -> list[Outcome]:
    """In the order of `runs`; `told` hears of each when it is done."""
    for url in places.databases.values():
        asyncio.run(_make_tables(url))
    context = multiprocessing.get_context("forkserver")
    outcomes: dict[Run, Outcome] = {}

    def keep(run: Run, done: "Future[Outcome]") -> None:
        outcomes[run] = run.broken(failed) if (failed := done.exception()) else done.result()
        told(outcomes[run])

    with (
        ProcessPoolExecutor(SIMULATED_AT_ONCE, context) as simulating,
        ProcessPoolExecutor(KILLED_AT_ONCE, context) as killing,
    ):
        for run in sorted(runs, key=lambda run: -run.cost):
            pool = killing if run.delivery is Delivery.KILLED else simulating
            done = pool.submit(outcome_of, run, places)
            done.add_done_callback(lambda done, run=run: keep(run, done))  # type: ignore[misc]
    return [outcomes[run] for run in runs]


def outcome_of(run: Run, places: Places) -> Outcome:
    """In a process of its own; a run that breaks is one that failed."""
    logging.disable(logging.WARNING)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_outcome(run, places))
    except Exception as failed:
        return run.broken(failed)


async def _outcome(run: Run, places: Places) -> Outcome:
    url = run.url(places)
    async with _stores(url, places.redis) as stores:
        if run.store not in places.databases:
            await _make_tables(url)
        strategy = run.kind(stores, run.name)
        outcome = run.judged()
        if run.delivery is Delivery.KILLED:
            return await with_kills(
                strategy,
                outcome,
                run.seed,
                run.kills,
                server=Server(places.endpoint, ""),
                urls=(url, places.redis),
                folder=places.folder,
            )
        workers = WORKERS_SQLITE if url.startswith("sqlite") else WORKERS
        deaths = run.delivery is Delivery.SIMULATED
        return await simulate(strategy, outcome, run.seed, workers=workers, deaths=deaths)


@asynccontextmanager
async def _stores(url: str, redis_url: str) -> AsyncIterator[Stores]:
    engine, redis = connect(url), MortalRedis.from_url(redis_url)
    try:
        yield Stores(engine, redis)
    finally:
        await engine.dispose()
        await redis.aclose()


async def _make_tables(url: str) -> None:
    """All of them, before the runs begin: two that make one at a time are in each other's way."""
    engine = connect(url)
    try:
        await prepare(engine)
        await SqlInbox(engine).create_table()
    finally:
        await engine.dispose()


def sqlite(file: Path) -> str:
    return f"sqlite+aiosqlite:///{file}"
