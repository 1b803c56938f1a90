"""Shards: brokers of one standalone, each with a log of its own. Which there are, and where.

    DIR              shard 0, as without further cores
    DIR/shards/1     shard 1, and so on

A directory that an earlier start left is served also when there are fewer cores now: its broker
takes no new messages and delivers those that it has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORES_MAX: Final = 64
AUTO_MAX: Final = 8
"""More shards by themselves would be more logs than most machines have use for."""


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    broker: str
    """Its name; part of receipt handles, so shard 0 has the name that it has without others."""
    directory: Path
    drains: bool


def auto_cores(cpu_count: int) -> int:
    """One per two cores of the machine: clients, and the system, need the others."""
    return max(1, min(AUTO_MAX, cpu_count // 2))


def plan(data_dir: Path, broker: str, cores: int, found: Iterable[int]) -> list[Shard]:
    """`found`: numbers of shards that have a directory."""
    numbers = sorted({*range(cores), *found})
    return [
        Shard(
            number,
            f"{broker}-{number}" if number else broker,
            shard_directory(data_dir, number),
            number >= cores,
        )
        for number in numbers
    ]


def shard_directory(data_dir: Path, number: int) -> Path:
    return data_dir / "shards" / str(number) if number else data_dir


def found_shards(data_dir: Path) -> list[int]:
    """Beside shard 0."""
    folder = data_dir / "shards"
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal() and int(name) > 0)
