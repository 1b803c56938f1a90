"""popmq replica list, move-primary: the replicas of brokers, as their primaries tell."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.replicas.force import force
from popmq_cli.shell.commands import Command, CommandGroup
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import colored, document, fail, fields, table
from popmq_readings.replica_remarks import in_sync_count, primary_of
from popmq_readings.short_numbers import NONE, bytes_text
from popmq_readings.times import duration_text

if TYPE_CHECKING:
    from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

MOVE_S: Final = 30.0
"""How long the new primary may take to serve."""
LOOK_S: Final = 0.1
HEADINGS: Final = ["BROKER", "REPLICA", "ROLE", "ADDRESS", "BEHIND", "FOR", "HEARD"]


@click.group(cls=CommandGroup)
def replica() -> None:
    """Show the replicas of brokers, and say which one is primary."""


@replica.command("list", cls=Command)
@click.argument("broker", required=False, default="")
@client_options
@running
async def list_(broker: str, endpoint: str, as_json: bool) -> None:
    """Show the replicas of BROKER, or of all brokers.

    BEHIND: what a replica does not have on its disk yet, and FOR how long that has been so. HEARD:
    how long ago the primary heard of it. A broker whose primary does not answer is shown as well.
    """
    async with AdminClient(endpoint) as stub:
        groups = await _groups(stub, broker)
    if as_json:
        document({"groups": [fields(group) for group in groups]})
        return
    for group in groups:
        click.echo(headline(group))
    rows = [row for group in groups for row in _rows(group)]
    if rows:
        click.echo()
        table(HEADINGS, rows)


@replica.command("move-primary", cls=Command)
@click.argument("broker")
@click.option(
    "--to", "to", default="", metavar="REPLICA", help="Choose the replica; it must be in sync."
)
@client_options
@running
async def move_primary(broker: str, to: str, endpoint: str, as_json: bool) -> None:
    """Make another replica of BROKER primary, and wait for it.

    The primary stops taking calls, hands over to a replica that has everything, and follows it.
    Nothing is lost; clients wait for a moment. Do this before you work on the primary's machine.
    """
    async with AdminClient(endpoint) as stub:
        request = admin.MovePrimaryRequest(broker=broker, to=to)
        begun_s = time.monotonic()
        before = (await stub.MovePrimary(request, timeout=TIMEOUT_S)).group
        now = await _moved(stub, before, begun_s)
        took_s = time.monotonic() - begun_s
    was, primary = primary_of(before), primary_of(now)
    if primary == was:
        fail(f"{was} is primary of {broker} again: nobody had everything in time; try again")
    if as_json:
        told = {"broker": broker, "from": was, "to": primary, "epoch": now.epoch}
        document({**told, "seconds": round(took_s, 3)})
        return
    click.echo(
        f"{primary} is primary of {broker} in epoch {now.epoch}, {took_s:.1f} s after {was} began "
        "to hand over."
    )


replica.add_command(force)


async def _groups(stub: "admin_grpc.AdminAsyncStub", broker: str) -> list[admin.ReplicaGroup]:
    request = admin.ShowReplicasRequest(broker=broker)
    return list((await stub.ShowReplicas(request, timeout=TIMEOUT_S)).groups)


async def _moved(
    stub: "admin_grpc.AdminAsyncStub", before: admin.ReplicaGroup, begun_s: float
) -> admin.ReplicaGroup:
    """The group, once a later epoch's primary serves."""
    while True:
        (group,) = await _groups(stub, before.broker)
        if group.epoch > before.epoch and group.replicas[0].role == "primary":
            return group
        if time.monotonic() - begun_s > MOVE_S:
            state = group.failure or f"epoch {group.epoch} has not begun to serve"
            fail(f"no new primary of {before.broker} within {MOVE_S:g} s: {state}")
        await asyncio.sleep(LOOK_S)


def headline(group: admin.ReplicaGroup) -> str:
    """A group in one line."""
    name = group.broker
    if group.failure:
        return f"{name}: {colored(group.failure, 'red')}"
    if not group.replicated:
        return f"{name}: no replicas"
    count, known = in_sync_count(group), len(group.replicas)
    forced = f"; epoch {group.forced_epoch} was forced" if group.forced_epoch else ""
    return (
        f"{name}: epoch {group.epoch}, {count} of {known} in sync, needs {group.min_in_sync} in "
        f"sync; committed up to {group.commit_point}, the log ends at {group.log_end}{forced}"
    )


def _rows(group: admin.ReplicaGroup) -> list[list[object]]:
    if not group.replicated:
        return []
    return [
        [
            group.broker,
            one.name,
            one.role if one.role != "silent" else colored(one.role, "red"),
            one.address or NONE,
            bytes_text(one.behind_bytes),
            duration_text(one.behind_ms) if one.behind_ms else NONE,
            duration_text(one.silent_ms) if at else NONE,
        ]
        for at, one in enumerate(group.replicas)
    ]
