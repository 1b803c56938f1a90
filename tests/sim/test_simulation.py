"""The simulation, short and with a fresh seed; `make sim` is the long one."""

import random

import pytest
from sim.simulation import live, run

STEPS = 10_000
SEEDS = 1 << 32


@pytest.mark.timeout(600)  # half a minute, and several on a machine with much else to do
def test_no_promise_is_broken() -> None:
    seed = random.SystemRandom().randrange(SEEDS)
    print(f"make sim SEED={seed} STEPS={STEPS}")
    total = run(seed, STEPS)
    assert total.sent > STEPS / 20
    assert total.deliveries > STEPS / 20


def test_a_seed_tells_the_same_story_again() -> None:
    assert live(11, 700) == live(11, 700)
