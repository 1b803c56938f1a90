"""popmq store: look into a data directory that no broker runs on, and repair it; or a queue of a
broker that runs."""

import asyncio
import os
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_broker import rebuild as rebuilds
from popmq_broker.config import BrokerConfig
from popmq_broker.handover import hand_over
from popmq_broker.store.offline import closed_directory as tools
from popmq_broker.store.offline.closed_directory import Shown
from popmq_cli.shell.commands import CommandGroup, json_option
from popmq_cli.shell.completion import topic_names
from popmq_cli.shell.connection import check_text, client_options
from popmq_cli.shell.output import confirm, document, table
from popmq_cli.shell.parameters import OFFSET, Number, QueueRef, QueueType
from popmq_cli.store.backup import backup
from popmq_cli.store.check import check
from popmq_cli.store.rebuild_queue import rebuild_queue
from popmq_cli.store.refusals import EXIT_FINDINGS, EXIT_SOUND, with_exit_codes
from popmq_cli.store.shards import (
    Fields,
    Told,
    directory_argument,
    go_through,
    note_other_shards,
    shard_option,
)
from popmq_common.process.clock import SystemClock
from popmq_common.process.config import from_env
from popmq_common.records import properties
from popmq_common.words import counted
from popmq_readings.times import moment

BODY_SHOWN = 60
ANY_QUEUE = -1

_WRITE = click.option(
    "--write", is_flag=True, help="Write the changes; without it they are only described."
)


@click.group(cls=CommandGroup)
def store() -> None:
    """Check, show, copy and repair the files of a broker.

    The broker must be stopped, except for `backup` and for `rebuild` of one queue. Exit codes: 0
    everything is sound, 1 damage was found, 2 the command was refused.
    """


@store.command()
@directory_argument
@click.option("--topic", default="", metavar="TOPIC", help="Only records of this topic.")
@click.option(
    "--queue", type=Number(), help="Only this queue of --topic, in the order of its entries."
)
@click.option(
    "--from",
    "start",
    type=OFFSET,
    default=0,
    show_default=True,
    help="Start at this log offset, or with --queue at this queue offset.",
)
@click.option(
    "--limit",
    type=Number(),
    default=20,
    show_default=True,
    help="Show at most this many records; 0: all.",
)
@click.option("--checkpoint", is_flag=True, help="Show what the last checkpoint wrote instead.")
@json_option
@with_exit_codes
def dump(
    data_dir: Path,
    topic: str,
    queue: int | None,
    start: int,
    limit: int,
    checkpoint: bool,
    as_json: bool,
) -> None:
    """Show records of the log in the data directory DIR."""
    note_other_shards(data_dir)
    if checkpoint:
        _show_checkpoint(data_dir, as_json)
        return
    if queue is not None and not topic:
        raise click.UsageError("--queue needs --topic")
    if queue is not None:
        lines = tools.dump_queue(data_dir, (topic, queue), start)
    else:
        lines = tools.dump_log(data_dir, start, topic, ANY_QUEUE)
    wrong = 0
    with closing(lines):
        for shown in islice(lines, limit or None):
            wrong += bool(shown.wrong)
            if as_json:
                document(_fields(shown))
            else:
                click.echo(shown.wrong or _line(shown))
    sys.exit(EXIT_FINDINGS if wrong else EXIT_SOUND)


def _show_checkpoint(data_dir: Path, as_json: bool) -> None:
    marks, ends = tools.checkpoints(data_dir)
    if as_json:
        queues = ends.queues if ends else {}
        document(
            {
                "logEnd": marks.log_end if marks else None,
                "logMs": marks.log_ms if marks else None,
                "queuesEnd": ends.log_end if ends else None,
                "queues": [
                    {"topic": topic, "queueId": i, "first": place.first, "next": place.next}
                    for (topic, i), place in queues.items()
                ],
            }
        )
        return
    if marks is None:
        click.echo("checkpoint: none of PopMQ's; a start reads the whole log")
    else:
        click.echo(f"log on disk up to {marks.log_end}, stored {moment(marks.log_ms)}")
    if ends is None:
        click.echo("queues: nothing says where they end; a start makes them again")
        return
    click.echo(f"queues on disk for all records before {ends.log_end}")
    rows = [(topic, i, place.first, place.next) for (topic, i), place in ends.queues.items()]
    table(["TOPIC", "QUEUE", "FIRST", "NEXT"], rows)


@store.command()
@click.argument(
    "data_dir",
    metavar="[DIR]",
    required=False,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option("--offsets", is_flag=True, help="Also rebuild the groups' offsets from the journal.")
@click.option(
    "--settings",
    is_flag=True,
    help="Also rebuild topics, groups, users and the permission from the log.",
)
@click.option(
    "--topic",
    default="",
    metavar="TOPIC",
    shell_complete=topic_names,
    help="Of a running broker: the topic, by the name it is stored under.",
)
@click.option(
    "--queue",
    type=QueueType(),
    help="Of running brokers: the queue of --topic, on each broker that has it, or on one: "
    "broker-a:0.",
)
@click.option(
    "--broker",
    default="",
    metavar="BROKER",
    help="Of a running broker: the same as --queue BROKER:QUEUE.",
)
@shard_option
@_WRITE
@client_options
def rebuild(
    data_dir: Path | None,
    offsets: bool,
    settings: bool,
    topic: str,
    queue: QueueRef | None,
    broker: str,
    shard: int | None,
    write: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Rebuild files that are derived from the log.

    Of a stopped broker: all queues in its directory DIR. With --offsets consumerOffset.json is set
    aside, and offsets are read from the journal. The offsets of a group whose journal records were
    deleted by retention are lost. With --settings the files of topics, groups, users and the
    permission are set aside too. If there are several shards, all are rebuilt.

    Of running brokers: one queue, named by --topic and --queue. Its damaged entries are written
    anew, and groups get the messages that they have skipped.
    """
    if data_dir is not None and not topic and queue is None:
        _rebuild_all(
            data_dir, shard, offsets=offsets, settings=settings, write=write, as_json=as_json
        )
    elif data_dir is None and shard is None and topic and queue is not None:
        if broker and queue.broker and broker != queue.broker:
            raise click.UsageError(f"two brokers are named: {broker} and {queue.broker}")
        broker = queue.broker or broker
        check_text({"topic": topic, "broker": broker})
        request = admin.RebuildQueueRequest(
            broker=broker, topic=topic, queue_id=queue.queue_id, begin=True
        )
        rebuild_queue(request, endpoint=endpoint, as_json=as_json)
    else:
        raise click.UsageError("name a directory, or --topic and --queue of a running broker")


@with_exit_codes
def _rebuild_all(
    data_dir: Path,
    shard: int | None,
    *,
    offsets: bool,
    settings: bool,
    write: bool,
    as_json: bool,
) -> None:
    more = ", and the groups' positions from the journal" if offsets else ""
    more += ", and topics, groups, users and the permission" if settings else ""

    def work(place: Path) -> Told:
        with tools.held(place):
            count = tools.queue_count(place)
        queues = counted(count, "queue")
        line = f"Would rebuild {queues} from the log{more}. Add --write to do it."
        if write:
            asyncio.run(rebuilds.rebuild(_config(place), offsets=offsets, settings=settings))
            line = f"Rebuilt {queues}. Now: popmq store check {place}"
        fields: Fields = {"queues": count, "offsets": offsets, "settings": settings}
        return {**fields, "written": write}, [line]

    go_through(data_dir, shard, as_json, work)


@store.command()
@directory_argument
@click.option("--at", required=True, type=OFFSET, help="Log offset of the first record to delete.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_WRITE
@json_option
@with_exit_codes
def truncate(data_dir: Path, at: int, yes: bool, write: bool, as_json: bool) -> None:
    """Delete the end of the log in DIR, from one record on.

    The derived files are rebuilt from what is left.
    """
    note_other_shards(data_dir)
    lost = tools.behind(data_dir, at)
    count = lost.records.total()
    if as_json:
        _truncate_as_json(data_dir, lost, at, write=write and yes)
        return
    records = counted(count, "record")
    click.echo(f"{records} between {at} and {lost.log_end} would be lost.")
    if count:
        click.echo(f"Stored {moment(lost.first_ms)} to {moment(lost.last_ms)}.")
        rows = [(topic, queue, n) for (topic, queue), n in sorted(lost.records.items())]
        table(["TOPIC", "QUEUE", "RECORDS"], rows)
    if not write:
        click.echo("Nothing was changed. Add --write to do it.")
        return
    confirm(f"Delete {records}?", yes=yes)
    tools.cut_log(data_dir, at)
    asyncio.run(rebuilds.rebuild(_config(data_dir), offsets=False))
    click.echo(f"The log ends at {at}. Now: popmq store check {data_dir}")


def _truncate_as_json(data_dir: Path, lost: tools.Behind, at: int, *, write: bool) -> None:
    if write:
        tools.cut_log(data_dir, at)
        asyncio.run(rebuilds.rebuild(_config(data_dir), offsets=False))
    queues = [
        {"topic": topic, "queueId": queue, "records": count}
        for (topic, queue), count in sorted(lost.records.items())
    ]
    document({"at": at, "logEnd": lost.log_end, "lost": queues, "written": write})


@store.command()
@directory_argument
@shard_option
@_WRITE
@json_option
@with_exit_codes
def handover(data_dir: Path, shard: int | None, write: bool, as_json: bool) -> None:
    """Prepare DIR for a broker of Apache RocketMQ.

    Writes delayed messages that are not due yet to timerlog and config/timercheck. Without these
    files RocketMQ delivers delayed messages again that PopMQ has delivered or recalled. Run it each
    time after PopMQ has used the directory. If there are several shards, each one's directory is
    for a broker of its own.
    """

    def work(place: Path) -> Told:
        with tools.held(place):
            pass
        if not write:
            line = "Would write timerlog and config/timercheck. Add --write to do it."
            return {"written": False, "waiting": None}, [line]
        count = asyncio.run(hand_over(_config(place), SystemClock()))
        messages = counted(count, "delayed message")
        line = f"{messages} written; RocketMQ will deliver them."
        return {"written": True, "waiting": count}, [line]

    go_through(data_dir, shard, as_json, work)


store.add_command(check)
store.add_command(backup)


def _config(data_dir: Path) -> BrokerConfig:
    """The broker's own: the cluster's name and the number of revive queues matter."""
    return from_env(
        BrokerConfig, "POPMQ_BROKER_", {**os.environ, "POPMQ_BROKER_DATA_DIR": str(data_dir)}
    )


def _line(shown: Shown) -> str:
    record = shown.record
    assert record is not None
    body = record.body[:BODY_SHOWN].decode("utf-8", "backslashreplace")
    named = properties.decode(record.properties)
    return (
        f"{record.log_offset} {record.topic}/{record.queue_id} offset {record.queue_offset} "
        f"{moment(record.store_timestamp_ms)} {counted(shown.size_bytes, 'byte')} "
        f"tag={named.get(properties.TAGS, '')} id={named.get(properties.UNIQ_KEY, '')} {body!r}"
    )


def _fields(shown: Shown) -> dict[str, Any]:
    record, entry = shown.record, shown.entry
    found: dict[str, Any] = {}
    if shown.wrong:
        found["wrong"] = shown.wrong
    if entry is not None:
        found["entry"] = entry._asdict()
    if record is not None:
        found |= {
            "logOffset": record.log_offset,
            "sizeBytes": shown.size_bytes,
            "topic": record.topic,
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "storeTimestampMs": record.store_timestamp_ms,
            "bornTimestampMs": record.born_timestamp_ms,
            "reconsumeTimes": record.reconsume_times,
            "sysFlag": record.sys_flag,
            "properties": properties.decode(record.properties),
            "body": record.body.decode("utf-8", "backslashreplace"),
        }
    return found
