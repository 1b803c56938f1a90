"""A simulation that finds nothing proves nothing: each planted fault must be found."""

import pytest
from replication_sim.faults.all_faults import FAULTS
from replication_sim.simulation import life
from replication_sim.violation import Violation

LIVES_MAX = 3_000
STEPS = 2_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    fault = FAULTS[name]
    for seed in range(1, LIVES_MAX + 1):
        try:
            with fault.planted():
                life(seed, STEPS, fault.dangers)
        except Exception as found:  # also what a shell that is broken may raise
            invariant = found.invariant if isinstance(found, Violation) else "crash"
            print(f"| {name.replace('_', ' ')} | {invariant} | {seed * STEPS:,} |")
            return
    pytest.fail(f"{LIVES_MAX * STEPS:,} steps found nothing")
