"""A campaign that finds nothing proves nothing: each fault planted in the broker must be found."""

from pathlib import Path

import pytest
from crash import campaign
from crash.faults import FAULTS
from crash.lives import IN_MEMORY

RUNS, RUNS_IN_MEMORY = 25, 12
"""With acks in memory a life takes seconds."""
OF_MEMORY = {"the_saved_position_passes_what_is_buffered"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    runs, in_memory = (RUNS_IN_MEMORY, 0.9) if name in OF_MEMORY else (RUNS, IN_MEMORY)
    with pytest.raises(AssertionError) as found:
        campaign.run(runs, 7, tmp_path, fault=name, in_memory=in_memory)
    text = str(found.value)
    print(name, text)
    assert " undone" in text or " lost" in text or "not settled" in text
