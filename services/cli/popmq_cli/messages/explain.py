"""popmq explain: what happened to a message, and why a group does or does not get it now."""

from typing import Any

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import group_names, topic_names
from popmq_cli.shell.connection import AdminClient, client_options, running
from popmq_cli.shell.message_lookup import id_in_topic
from popmq_cli.shell.output import EXIT_FAILED, colored, document, note, table
from popmq_cli.shell.parameters import MessagePosition, MessageType
from popmq_readings.times import moment, span_text

EXPLAIN_TIMEOUT_S = 30.0  # each broker may take its time to bring the index up to date
NOTHING = "unknown"


@click.command(cls=Command)
@click.argument("wanted", metavar="MESSAGE", type=MessageType())
@click.option(
    "--topic",
    default="",
    metavar="TOPIC",
    shell_complete=topic_names,
    help="The topic it was sent to; without it all topics are searched for the id.",
)
@click.option(
    "--group",
    default="",
    metavar="GROUP",
    shell_complete=group_names,
    help="Explain for this consumer group only, even if it never received.",
)
@client_options
@running
async def explain(
    wanted: str | MessagePosition, topic: str, group: str, endpoint: str, as_json: bool
) -> None:
    """Tell what happened to a message, and why it is or is not received.

    Shows a timeline, and for each consumer group whether it can receive the message now.

    MESSAGE is a message id, as `popmq send` and `popmq receive` print it; or with --topic its
    place, QUEUE:OFFSET or BROKER:QUEUE:OFFSET. Exit code 1: no broker knows the message; then the
    answer says where it was searched.
    """
    if isinstance(wanted, MessagePosition) and not topic:
        raise click.UsageError("QUEUE:OFFSET needs --topic: each topic has such queues")
    async with AdminClient(endpoint) as stub:
        message_id = await id_in_topic(stub, topic, wanted)
        request = admin.ExplainRequest(message_id=message_id, topic=topic, group=group)
        found = await stub.Explain(request, timeout=EXPLAIN_TIMEOUT_S)
    if as_json:
        document(_fields(message_id, found))
    else:
        _show(message_id, found)
    if not found.found:
        raise SystemExit(EXIT_FAILED)


def _show(message_id: str, found: admin.ExplainResponse) -> None:
    if found.found:
        click.echo(f"{message_id}, topic {found.topic}")
    if found.timeline:
        click.echo()
        rows = [
            (moment(event.at_ms), event.broker, event.group or "-", event.text)
            for event in found.timeline
        ]
        table(["WHEN", "BROKER", "GROUP", "WHAT"], rows)
    click.echo()
    for verdict in found.verdicts:
        _show_verdict(verdict, found.now_ms)
    for one in found.notes:
        note(f"Note: {one}")


def _show_verdict(verdict: admin.Verdict, now_ms: int) -> None:
    if verdict.state == NOTHING:
        click.echo(verdict.text)
    else:
        who = f"group {verdict.group}" if verdict.group else "every group"
        seen = colored("visible now", "green") if verdict.visible else "not visible now"
        click.echo(f"{who}: {seen} ({colored(verdict.state, 'yellow')})")
        click.echo(f"  {verdict.text}")
    if verdict.until_ms > now_ms:
        click.echo(f"  that is in {span_text(verdict.until_ms - now_ms)}")
    if verdict.hint:
        click.echo(f"  → {verdict.hint}")


def _fields(message_id: str, found: admin.ExplainResponse) -> dict[str, Any]:
    return {
        "messageId": message_id,
        "found": found.found,
        "topic": found.topic,
        "nowMs": found.now_ms,
        "timeline": [
            {
                "atMs": event.at_ms,
                "broker": event.broker,
                "group": event.group,
                "kind": event.kind,
                "text": event.text,
            }
            for event in found.timeline
        ],
        "verdicts": [
            {
                "group": verdict.group,
                "broker": verdict.broker,
                "state": verdict.state,
                "visible": verdict.visible,
                "text": verdict.text,
                "untilMs": verdict.until_ms,
                "hint": verdict.hint,
            }
            for verdict in found.verdicts
        ],
        "notes": list(found.notes),
    }
