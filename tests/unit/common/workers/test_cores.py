"""How many workers has a machine use for?"""

import pytest

from popmq_common.workers.cores import auto_cores


@pytest.mark.parametrize(
    ("cpus", "cores"), [(1, 1), (2, 1), (3, 1), (4, 2), (15, 7), (16, 8), (128, 8)]
)
def test_one_per_two_cores_and_not_too_many(cpus: int, cores: int) -> None:
    assert auto_cores(cpus) == cores
