"""A simulation that finds nothing proves nothing: each planted fault must be found."""

import pytest
from sim.faults import FAULTS
from sim.simulation import live
from sim.violation import Violation

STEPS = 2_000
LIVES_MAX = 200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    for seed in range(1, LIVES_MAX + 1):
        try:
            with FAULTS[name]():
                live(seed, STEPS)
        except Violation as found:
            print(f"| {name.replace('_', ' ')} | {found.invariant} | {seed * STEPS:,} |")
            return
    pytest.fail(f"{LIVES_MAX * STEPS} steps found nothing")
