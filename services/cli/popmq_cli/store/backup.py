"""popmq store backup: copy the data directory of a broker that may run."""

import asyncio
import os
from pathlib import Path

import click

from popmq_broker import backup as backups
from popmq_broker.config import BrokerConfig
from popmq_broker.shards.layout import shard_directory
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.output import document, fail, progress
from popmq_cli.store.shards import directory_argument, shards_in
from popmq_common.errors import BadRequest, PopMQError
from popmq_common.process import logs
from popmq_common.process.config import ConfigError, from_env
from popmq_common.words import counted
from popmq_readings.short_numbers import bytes_text

EXIT_NOT_LIKE_THAT = 2


@click.command(cls=Command)
@directory_argument
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path, file_okay=False))
@json_option
def backup(data_dir: Path, target: Path, as_json: bool) -> None:
    """Copy the data directory DIR to TARGET.

    The broker may run meanwhile. TARGET holds everything that was answered OK before the command
    began. To restore, stop the broker, put TARGET in the place of DIR, and start the broker. The
    copy of a replica is the directory of a broker without replicas (docs/replicas.md). If
    there are several shards, all are copied, one after the other.
    """
    files = data_bytes = 0
    try:
        logs.configure("warning")
        for shard in shards_in(data_dir, None):
            copied = _copy(shard.path, shard_directory(target, shard.number), as_json)
            files += copied.files
            data_bytes += copied.data_bytes
    except (BadRequest, ConfigError) as wrong:
        fail(str(wrong), EXIT_NOT_LIKE_THAT)
    except (PopMQError, OSError) as wrong:
        fail(str(wrong))
    if as_json:
        document({"target": str(target), "files": files, "bytes": data_bytes})
        return
    size = bytes_text(data_bytes)
    click.echo(f"Copied {counted(files, 'file')}, {size}. To be sure: popmq store check {target}")


def _copy(data_dir: Path, target: Path, as_json: bool) -> backups.Copied:
    """Of one broker. Raises `BadRequest`, `ConfigError`, `PopMQError`, `OSError`."""
    environ = {**os.environ, "POPMQ_BROKER_DATA_DIR": str(target)}
    config = from_env(BrokerConfig, "POPMQ_BROKER_", environ)
    with progress("Copying", shown=not as_json) as tell:
        copied = backups.copy(data_dir, target, tell)
    asyncio.run(backups.settle(config))
    return copied
