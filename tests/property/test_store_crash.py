"""Whatever a crash keeps or loses of what was not synced: what was answered is there.

The lives and the oracle are those of harness/crash_world.py; `make crash-sim` runs 10,000.
"""

import asyncio
from random import Random

import pytest
from harness.crash_world import CrashWorld
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize("sync_flush", [True, False])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_a_crash_loses_nothing_that_was_answered(sync_flush: bool, seed: int) -> None:
    asyncio.run(CrashWorld(Random(seed), sync_flush=sync_flush).run())
