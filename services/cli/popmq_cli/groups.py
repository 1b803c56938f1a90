"""popmq group: make, list, show, delete consumer groups."""

import click
from google.protobuf.json_format import MessageToDict

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document, table


@click.group()
def group() -> None:
    """Make, list, show and delete consumer groups."""


@group.command()
@click.argument("name")
@click.option("--fifo", is_flag=True, help="Messages of one message group are consumed in order.")
@click.option(
    "--max-attempts",
    default=16,
    show_default=True,
    help="Deliveries before a message goes to the dead letters.",
)
@click.option(
    "--from",
    "consume_from",
    type=click.Choice(["last", "first"]),
    default="last",
    show_default=True,
    help="Where it starts: at messages sent after its first receive, or at the oldest.",
)
@client_options
@running
async def create(
    name: str, fifo: bool, max_attempts: int, consume_from: str, endpoint: str, as_json: bool
) -> None:
    """Make the consumer group NAME on every broker, or change it."""
    wanted = admin.Group(
        name=name, fifo=fifo, max_attempts=max_attempts, consume_from=consume_from.upper()
    )
    async with AdminClient(endpoint) as stub:
        request = admin.CreateGroupRequest(group=wanted)
        response = await stub.CreateGroup(request, timeout=TIMEOUT_S)
    if as_json:
        document({"group": MessageToDict(wanted), "brokers": list(response.brokers)})
        return
    where = ", ".join(response.brokers)
    click.echo(f"Group {name} ({max_attempts} attempts, from {consume_from}) is on {where}.")


@group.command("list")
@client_options
@running
async def list_groups(endpoint: str, as_json: bool) -> None:
    """List the consumer groups."""
    async with AdminClient(endpoint) as stub:
        response = await stub.ListGroups(admin.ListGroupsRequest(), timeout=TIMEOUT_S)
    if as_json:
        document([MessageToDict(found) for found in response.groups])
        return
    rows = [
        (found.name, "yes" if found.fifo else "no", found.max_attempts, found.consume_from.lower())
        for found in response.groups
    ]
    table(["GROUP", "FIFO", "ATTEMPTS", "FROM"], rows)


@group.command()
@click.argument("name")
@client_options
@running
async def show(name: str, endpoint: str, as_json: bool) -> None:
    """Show how far the group NAME is in each queue."""
    async with AdminClient(endpoint) as stub:
        request = admin.DescribeGroupRequest(name=name)
        response = await stub.DescribeGroup(request, timeout=TIMEOUT_S)
    if as_json:
        document(MessageToDict(response, always_print_fields_with_no_presence=True))
        return
    found = response.group
    start = found.consume_from.lower()
    click.echo(f"{found.name}: {found.max_attempts} attempts, starts at the {start} message")
    rows = [
        (
            queue.broker,
            queue.topic,
            queue.queue_id,
            queue.committed_offset,
            queue.max_offset,
            queue.in_flight,
            queue.lag,
        )
        for queue in response.queues
    ]
    table(["BROKER", "TOPIC", "QUEUE", "COMMITTED", "NEXT", "IN FLIGHT", "LAG"], rows)


@group.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
@running
async def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete the group NAME and its place in every queue."""
    if not yes:
        click.confirm(f"Delete group {name} and its place in every queue?", abort=True, err=True)
    async with AdminClient(endpoint) as stub:
        await stub.DeleteGroup(admin.DeleteGroupRequest(name=name), timeout=TIMEOUT_S)
    if as_json:
        document({"deleted": name})
    else:
        click.echo(f"Group {name} is deleted.")
