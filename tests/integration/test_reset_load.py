"""Groups are reset under load, once each way: exactly what must come again does.

`make reset-load` does it more often, and looks at the time it takes.
"""

import asyncio
import random
from pathlib import Path

import pytest
from campaigns.reset_load import ENV, KINDS, campaign
from harness.processes import standalone


@pytest.mark.timeout(300)
def test_a_reset_under_load_repeats_exactly_what_it_should(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with standalone(tmp_path, ENV) as server:
        found = asyncio.run(campaign(server, 1, seed))
    assert [one.kind for one in found] == list(KINDS)
    for one in found:
        assert not one.wrong, one.wrong[:10]
        assert one.resets == 2
