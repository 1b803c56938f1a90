"""The simulation of replicas, short; `make replica-sim` is the long one."""

import random

import pytest
from replication_sim.simulation import life, run

STEPS = 15_000
FIXED = (1, 1_000, 21_000)
FRESH = 3
SEEDS = 1 << 32


@pytest.mark.parametrize("seed", FIXED)
def test_no_promise_is_broken(seed: int) -> None:
    total = run(seed, STEPS)
    assert total.answered > 0
    assert total.epochs > 3


@pytest.mark.parametrize("_", range(FRESH))
def test_no_promise_is_broken_with_a_fresh_seed(_: int) -> None:
    seed = random.SystemRandom().randrange(SEEDS)
    print(f"make replica-sim SEED={seed} STEPS={STEPS}")
    assert run(seed, STEPS).steps >= STEPS


def test_a_seed_tells_the_same_story_again() -> None:
    assert life(11, 2_000) == life(11, 2_000)
