"""The torture in small: finds duplicates where nothing prevents them, and judges what it finds."""

from collections import Counter
from pathlib import Path

import pytest
from idempotence.death import MortalRedis
from idempotence.ledger import connect, prepare
from idempotence.outcome import Outcome, table
from idempotence.plan import Action, make
from idempotence.simulator import simulate
from idempotence.strategies import InMemory, InSql, Promise, Stores, Strategy, Versions, WithoutSql

SEED, MESSAGES = 20, 40


@pytest.mark.parametrize(
    ("kind", "deaths", "duplicates"),
    [
        (WithoutSql, True, True),
        (InMemory, True, True),
        (InMemory, False, False),
        (InSql, True, False),
        (Versions, True, False),
    ],
)
async def test_a_strategy(
    kind: type[Strategy], deaths: bool, duplicates: bool, tmp_path: Path
) -> None:
    engine = connect(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    try:
        await prepare(engine)
        strategy = kind(Stores(engine, MortalRedis()), "run")
        outcome = Outcome(kind.name, "SQLite", "simulator", kind.promise, MESSAGES)
        await simulate(strategy, outcome, SEED, workers=4, deaths=deaths)
    finally:
        await engine.dispose()
    assert (outcome.failure, outcome.missing, outcome.unknown) == (None, 0, 0)
    assert bool(outcome.duplicates) is duplicates
    assert bool(outcome.deaths) is deaths
    assert f"| {kind.name} | SQLite |" in table([outcome])


def test_a_plan_delivers_each_message_one_to_five_times() -> None:
    copies = make("run", SEED, 500, deaths=True, kills=9)
    deliveries = Counter[str]()
    for copy in copies:
        deliveries[copy.key] += len(copy.actions)
        assert copy.actions[-1] is Action.CLEAN
    assert set(deliveries.values()) == {1, 2, 3, 4, 5}
    assert len(deliveries) == 500 < len(copies)
    assert sum(copy.killed for copy in copies) == 9
    assert {action for copy in copies for action in copy.actions} == set(Action)
    assert copies == make("run", SEED, 500, deaths=True, kills=9)


@pytest.mark.parametrize(
    ("promise", "effects", "fails"),
    [
        (Promise.ONCE, {"a": 1, "b": 1}, None),
        (Promise.ONCE, {"a": 2, "b": 1}, "1 duplicates"),
        (Promise.ONCE, {"a": 1}, "1 effects are missing"),
        (Promise.ONCE, {"a": 1, "b": 1, "c": 1}, "1 are of no message"),
        (Promise.NOTHING, {"a": 1, "b": 1}, "this run shows nothing"),
        (Promise.NOTHING, {"a": 1, "b": 5}, None),
        (Promise.ONCE_WHILE_ALIVE, {"a": 2, "b": 1}, "no process died"),
        (Promise.AT_LEAST_ONCE, {"a": 3, "b": 1}, "2 duplicates, 1 deaths or pauses"),
        (Promise.AT_LEAST_ONCE, {"a": 2, "b": 1}, None),
    ],
)
def test_a_promise_that_is_not_kept_is_seen(
    promise: Promise, effects: dict[str, int], fails: str | None
) -> None:
    outcome = Outcome("x", "SQLite", "simulator", promise, 2, deaths_inside=1)
    outcome.judge(Counter(effects), {"a", "b"})
    assert (fails in outcome.failure) if fails and outcome.failure else outcome.failure == fails
