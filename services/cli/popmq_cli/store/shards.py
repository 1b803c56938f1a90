"""The directories that DIR means: a standalone of several cores has one for each shard."""

from pathlib import Path
from typing import NamedTuple

import click

from popmq_cli.shell.output import note
from popmq_cli.shell.parameters import Number
from popmq_common.errors import BadRequest
from popmq_standalone.cores.shards import found_shards, shard_directory

shard_option = click.option(
    "--shard",
    type=Number(),
    metavar="N",
    help="Only this shard of a standalone that has several; shard 0 is DIR without the others.",
)


class ShardDirectory(NamedTuple):
    """Where the files of a broker are."""

    number: int
    path: Path

    @property
    def heading(self) -> str:
        return f"shard {self.number}, {self.path}:"


def shards_in(data_dir: Path, wanted: int | None) -> list[ShardDirectory]:
    """All, or the one that is wanted. Raises `BadRequest` when there is no such one."""
    numbers = [0, *found_shards(data_dir)]
    if wanted is not None and wanted not in numbers:
        there = ", ".join(map(str, numbers))
        raise BadRequest(reason=f"{data_dir} has no shard {wanted}; it has: {there}")
    chosen = numbers if wanted is None else [wanted]
    return [ShardDirectory(number, shard_directory(data_dir, number)) for number in chosen]


def together(found: list[tuple[ShardDirectory, dict[str, object]]]) -> dict[str, object]:
    """What is told of shards, as one document: that of the only one, or a list."""
    if len(found) == 1:
        return found[0][1]
    return {
        "shards": [
            {"shard": shard.number, "directory": str(shard.path), **fields}
            for shard, fields in found
        ]
    }


def note_other_shards(data_dir: Path) -> None:
    """A line for people about what a command leaves alone that reads one log."""
    others = [str(shard.path) for shard in shards_in(data_dir, None)[1:]]
    if others:
        note(f"Not looked at, for each shard has a log of its own: {', '.join(others)}")
