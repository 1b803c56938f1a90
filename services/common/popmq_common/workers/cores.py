"""How many workers a machine has use for."""

from typing import Final

CORES_MAX: Final = 64
AUTO_MAX: Final = 8
"""More by themselves would be more logs than most machines have use for."""


def auto_cores(cpu_count: int) -> int:
    """One per two cores of the machine: clients, and the system, need the others."""
    return max(1, min(AUTO_MAX, cpu_count // 2))
