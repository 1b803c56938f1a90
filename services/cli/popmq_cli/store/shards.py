"""The directories that DIR means: a broker or standalone of several processes has one for each."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click

from popmq_broker.shards.layout import found_shards, shard_directory
from popmq_cli.shell.output import document, note
from popmq_cli.shell.parameters import Number
from popmq_common.errors import BadRequest

directory_argument = click.argument(
    "data_dir", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
shard_option = click.option(
    "--shard",
    type=Number(),
    metavar="N",
    help="Only this shard, if there are several; shard 0 is DIR without the others.",
)


Fields = dict[str, object]
Told = tuple[Fields, list[str]]
"""What is to be told of a directory: for programs, and for people."""


class ShardDirectory(NamedTuple):
    """Where the files of a broker are."""

    number: int
    path: Path


def shards_in(data_dir: Path, wanted: int | None) -> list[ShardDirectory]:
    """All, or the one that is wanted. Raises `BadRequest` when there is no such one."""
    numbers = [0, *found_shards(data_dir)]
    if wanted is not None and wanted not in numbers:
        there = ", ".join(map(str, numbers))
        raise BadRequest(reason=f"{data_dir} has no shard {wanted}; it has: {there}")
    chosen = numbers if wanted is None else [wanted]
    return [ShardDirectory(number, shard_directory(data_dir, number)) for number in chosen]


def go_through(
    data_dir: Path, wanted: int | None, as_json: bool, work: Callable[[Path], Told]
) -> list[Fields]:
    """Does `work` in each directory and tells of it: in lines, or as one document, a list where
    there are several. Returns the fields of each. Raises `BadRequest` and what `work` raises."""
    shards = shards_in(data_dir, wanted)
    found: list[Fields] = []
    for shard in shards:
        fields, lines = work(shard.path)
        found.append({"shard": shard.number, "directory": str(shard.path), **fields})
        if as_json:
            continue
        if len(shards) > 1:
            click.echo(f"shard {shard.number}, {shard.path}:")
        for line in lines:
            click.echo(line)
    if as_json:
        document(fields if len(shards) == 1 else {"shards": found})
    return found


def note_other_shards(data_dir: Path) -> None:
    """A line for people about what a command leaves alone that reads one log."""
    others = [str(shard.path) for shard in shards_in(data_dir, None)[1:]]
    if others:
        note(f"Not looked at, for each shard has a log of its own: {', '.join(others)}")
