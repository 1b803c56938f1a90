"""What a command that reads one data directory leaves alone: the shards of a standalone."""

from pathlib import Path

from popmq_cli.shell.output import note
from popmq_standalone.cores.shards import found_shards, shard_directory


def note_other_shards(data_dir: Path) -> None:
    """A line for people, if there are any: each is a directory of its own."""
    others = [str(shard_directory(data_dir, number)) for number in found_shards(data_dir)]
    if others:
        note(f"Not looked at, for each shard is a directory of its own: {', '.join(others)}")
