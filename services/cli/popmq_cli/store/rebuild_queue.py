"""popmq store rebuild of one queue: asked of the brokers that have it, while they run."""

import asyncio
import sys
from typing import Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, running
from popmq_cli.shell.output import EXIT_FAILED, document, fields
from popmq_common.words import counted

POLL_S: Final = 0.5


@running
async def rebuild_queue(request: admin.RebuildQueueRequest, endpoint: str, as_json: bool) -> None:
    async with AdminClient(endpoint) as stub:
        begun = await stub.RebuildQueue(request, timeout=TIMEOUT_S)
        found = {one.broker: one for one in begun.brokers}
        while any(one.running for one in found.values()):
            await asyncio.sleep(POLL_S)
            for name in [name for name, one in found.items() if one.running]:
                ask = admin.RebuildQueueRequest(
                    broker=name, topic=request.topic, queue_id=request.queue_id
                )
                (found[name],) = (await stub.RebuildQueue(ask, timeout=TIMEOUT_S)).brokers
    _show_rebuilt([found[name] for name in sorted(found)], as_json)


def _show_rebuilt(found: list[admin.QueueRebuild], as_json: bool) -> None:
    if as_json:
        document({"brokers": [fields(one) for one in found]})
    for one in [] if as_json else found:
        entries = counted(one.looked_at, "entry", "entries")
        click.echo(
            f"{one.broker}: {one.failure}"
            if one.failure
            else f"{one.broker}: {entries}, {one.repaired} written anew; "
            f"{counted(one.unreadable, 'message')} cannot be read; "
            f"{one.delivered} delivered to groups that went over them"
        )
    done = [one for one in found if not one.failure]
    sys.exit(0 if done and not any(one.unreadable for one in done) else EXIT_FAILED)
