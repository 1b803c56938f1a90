"""popmq export: have brokers write snapshots for the audit, list and verify what is there."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import CommandGroup, json_option
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import EXIT_FAILED, document, fail, table
from popmq_common.words import counted
from popmq_pipelines.snapshot import snapshots
from popmq_pipelines.snapshot.destination import NoDestination
from popmq_pipelines.snapshot.seal import BadKey, key_of
from popmq_pipelines.snapshot.snapshots import KeptSnapshot
from popmq_readings.times import moment

POLL_S: Final = 0.5
EXIT_USAGE: Final = 2
_BROKER = click.option(
    "--broker", default="", metavar="BROKER", help="Only this broker.  [default: every broker]"
)
_PLACE = click.argument("place", envvar="POPMQ_BROKER_EXPORT_DIR")


@click.group(cls=CommandGroup)
def export() -> None:
    """Write snapshots of brokers for the audit, list them and verify them."""


@export.command()
@_BROKER
@click.option(
    "--whole", is_flag=True, help="Write a whole snapshot, not what is new since the last one."
)
@click.option("--no-wait", is_flag=True, help="Do not wait for the end; see `popmq export status`.")
@client_options
@running
async def now(broker: str, whole: bool, no_wait: bool, endpoint: str, as_json: bool) -> None:
    """Have brokers write a snapshot of what they store now.

    A snapshot continues the one before it. Brokers keep working meanwhile. Exit code 1: a snapshot
    failed.
    """
    async with AdminClient(endpoint) as stub:
        request = admin.ExportSnapshotRequest(broker=broker, whole=whole)
        begun = await stub.ExportSnapshot(request, timeout=TIMEOUT_S)
        found = list(begun.brokers)
        asked = admin.ExportStatusRequest(broker=broker)
        wanted = {one.broker: one.snapshot_id for one in begun.brokers if not one.failure}
        while not no_wait and any(one.snapshot_id == wanted.get(one.broker) for one in found):
            await asyncio.sleep(POLL_S)
            response = await stub.ExportStatus(asked, timeout=TIMEOUT_S)
            refused = {one.broker: one for one in begun.brokers if one.failure}
            found = [refused.get(one.broker, one) for one in response.brokers]
    _show(found, as_json)
    if any(one.failure or (not no_wait and one.last.failure) for one in found):
        sys.exit(EXIT_FAILED)


@export.command()
@_BROKER
@client_options
@running
async def status(broker: str, endpoint: str, as_json: bool) -> None:
    """Show snapshots that are being written, and the last ones."""
    async with AdminClient(endpoint) as stub:
        request = admin.ExportStatusRequest(broker=broker)
        response = await stub.ExportStatus(request, timeout=TIMEOUT_S)
    _show(response.brokers, as_json)


def _show(found: Sequence[admin.BrokerExport], as_json: bool) -> None:
    if as_json:
        document({"brokers": [_fields(one) for one in found]})
        return
    for one in found:
        for line in _lines(one):
            click.echo(line)


def _lines(one: admin.BrokerExport) -> list[str]:
    if one.failure:
        return [f"{one.broker}: {one.failure}"]
    lines = []
    if one.snapshot_id:
        lines.append(
            f"{one.broker}: snapshot {one.snapshot_id}, {counted(one.rows, 'record')} so far"
        )
    last = one.last
    if last.failure:
        lines.append(f"{one.broker}: snapshot {last.snapshot_id} failed: {last.failure}")
    elif last.snapshot_id:
        kind = f"whole, {last.why_whole}" if last.whole else "goes on from the one before"
        size = f"{counted(last.rows, 'row')}, {last.size_bytes / (1 << 20):.1f} MiB"
        seconds = f"{last.duration_ms / 1_000:.1f} s"
        lines.append(f"{one.broker}: snapshot {last.snapshot_id}: {size}, {seconds}; {kind}")
        lines.append(f"  {last.place}")
        lines += [f"  incomplete: {problem}" for problem in last.problems]
        lines += [f"  removed: {name}" for name in last.removed]
    return lines or [f"{one.broker}: nothing was exported since its start"]


def _fields(one: admin.BrokerExport) -> dict[str, Any]:
    last = one.last
    return {
        "broker": one.broker,
        "failure": one.failure,
        "running": one.snapshot_id,
        "startedMs": one.started_ms,
        "recordsSoFar": one.rows,
        "last": {
            "snapshotId": last.snapshot_id,
            "endedMs": last.ended_ms,
            "failure": last.failure,
            "place": last.place,
            "whole": last.whole,
            "whyWhole": last.why_whole,
            "rows": last.rows,
            "bytes": last.size_bytes,
            "logFrom": last.log_from,
            "logEnd": last.log_end,
            "durationMs": last.duration_ms,
            "problems": list(last.problems),
            "removed": list(last.removed),
        }
        if last.snapshot_id
        else None,
    }


def _errors(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def run(*args: Any, **named: Any) -> None:
        try:
            command(*args, **named)
        except (NoDestination, OSError) as wrong:
            fail(str(wrong), EXIT_USAGE)

    return run


@export.command("list")
@_PLACE
@json_option
@_errors
def list_snapshots(place: str, as_json: bool) -> None:
    """List the snapshots at PLACE, of one broker or several.

    PLACE is a directory or URL; the default is POPMQ_BROKER_EXPORT_DIR.
    """
    found = [one for _, kept in snapshots.look(place) for one in kept]
    if as_json:
        document({"snapshots": [_told(one) for one in found]})
        return
    rows = [
        (
            one.manifest.snapshot_id,
            moment(one.manifest.as_of_ms),
            "whole" if one.manifest.is_whole else "goes on",
            one.manifest.files["commitlog_index"]["rows"],
            one.size_bytes,
            len(one.manifest.problems),
        )
        for one in found
    ]
    table(["SNAPSHOT", "AS OF", "KIND", "RECORDS", "BYTES", "PROBLEMS"], rows)


@export.command()
@_PLACE
@json_option
@_errors
def verify(place: str, as_json: bool) -> None:
    """Compare the files of snapshots with their manifests.

    PLACE is a snapshot, or a folder of snapshots. If POPMQ_SNAPSHOT_KEY_FILE names a file with a
    key, each manifest must be sealed with it, as for the audit. Exit codes: 0 all files are as they
    were written, 1 some are not, 2 there is nothing to verify, or the key cannot be read.
    """
    try:
        key = key_of(os.environ)
    except BadKey as wrong:
        fail(str(wrong), EXIT_USAGE)
    looked = snapshots.look(place)
    if not looked:
        fail(f"there is no snapshot at {place}", EXIT_USAGE)
    problems: dict[str, list[str]] = {}
    for destination, kept in looked:
        for one in kept:
            problems[one.manifest.snapshot_id] = snapshots.verify(destination, one, key)
        beside = snapshots.kept(destination)
        for one, text in snapshots.verify_joins(beside):
            if one.manifest.snapshot_id in problems:
                problems[one.manifest.snapshot_id].append(text)
    if as_json:
        document({"snapshots": [{"snapshotId": k, "problems": v} for k, v in problems.items()]})
    for name, texts in problems.items() if not as_json else ():
        click.echo(f"{name}: {'; '.join(texts) or 'as it was written'}")
    if any(problems.values()):
        sys.exit(EXIT_FAILED)


def _told(one: KeptSnapshot) -> dict[str, Any]:
    manifest = one.manifest
    return {
        "snapshotId": manifest.snapshot_id,
        "broker": manifest.broker,
        "asOfMs": manifest.as_of_ms,
        "whole": manifest.is_whole,
        "goesOnFrom": manifest.previous_snapshot_id,
        "logFrom": manifest.log_from,
        "logEnd": manifest.log_end,
        "rows": {name: told["rows"] for name, told in manifest.files.items()},
        "bytes": one.size_bytes,
        "problems": manifest.problems,
    }
