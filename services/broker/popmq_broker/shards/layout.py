"""Shards: brokers that belong together, each with a log of its own. Which there are, and where.

    DIR              shard 0, as without further ones
    DIR/shards/1     shard 1, and so on

A directory that an earlier start left is served also when fewer shards are wanted now: its broker
takes no new messages and delivers those that it has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from popmq_common.workers.seat import Seat


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(Seat):
    """Its name is its broker's, which is part of receipt handles: shard 0 has the name that it has
    without others."""

    directory: Path


def plan(data_dir: Path, broker: str, wanted: int, found: Iterable[int]) -> list[Shard]:
    """`found`: numbers of shards that have a directory."""
    numbers = sorted({*range(wanted), *found})
    return [
        Shard(
            number,
            f"{broker}-{number}" if number else broker,
            number >= wanted,
            directory=shard_directory(data_dir, number),
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
