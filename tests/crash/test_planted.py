"""A campaign that finds nothing proves nothing: each fault planted in the broker must be found."""

from pathlib import Path

import pytest
from crash import campaign
from crash.faults import FAULTS
from crash.lives import IN_MEMORY

RUNS = 25
OF_MEMORY = {"the_saved_position_passes_what_is_buffered"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    in_memory = 0.9 if name in OF_MEMORY else IN_MEMORY
    with pytest.raises(AssertionError) as found:
        campaign.run(RUNS, 7, tmp_path, fault=name, in_memory=in_memory)
    text = str(found.value)
    print(name, text)
    assert " undone" in text or " lost" in text or "not settled" in text
