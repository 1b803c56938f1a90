"""popmq topic: make, list, show, delete."""

import click
from google.protobuf.json_format import MessageToDict

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.completion import topic_names
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document, table

TYPES = ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]


@click.group()
def topic() -> None:
    """Make, list, show and delete topics."""


@topic.command()
@click.argument("name")
@click.option(
    "--type",
    "message_type",
    type=click.Choice(TYPES, case_sensitive=False),
    metavar="|".join(TYPES),
    default="NORMAL",
    show_default=True,
    help="The messages it takes; MIXED takes all.",
)
@click.option(
    "--queues",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Queues on each broker.",
)
@click.option(
    "--place-groups-anew",
    is_flag=True,
    help="Spread message groups over the brokers there are now; their messages may change places.",
)
@client_options
@running
async def create(
    name: str,
    message_type: str,
    queues: int,
    place_groups_anew: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Make the topic NAME on every broker, or change it."""
    wanted = admin.Topic(name=name, message_type=message_type.upper(), queues=queues)
    async with AdminClient(endpoint) as stub:
        request = admin.CreateTopicRequest(topic=wanted, place_groups_anew=place_groups_anew)
        response = await stub.CreateTopic(request, timeout=TIMEOUT_S)
    if as_json:
        document({"topic": MessageToDict(wanted), "brokers": list(response.brokers)})
        return
    where = ", ".join(response.brokers)
    click.echo(f"Topic {name} ({wanted.message_type}, {queues} queues) is on {where}.")


@topic.command("list")
@click.option("--system", is_flag=True, help="Also retry topics, dead letters, internal topics.")
@client_options
@running
async def list_topics(system: bool, endpoint: str, as_json: bool) -> None:
    """List the topics."""
    async with AdminClient(endpoint) as stub:
        request = admin.ListTopicsRequest(system=system)
        response = await stub.ListTopics(request, timeout=TIMEOUT_S)
    if as_json:
        document([MessageToDict(found) for found in response.topics])
        return
    rows = [(found.name, found.message_type, found.queues) for found in response.topics]
    table(["TOPIC", "TYPE", "QUEUES"], rows)


@topic.command()
@click.argument("name", shell_complete=topic_names)
@client_options
@running
async def show(name: str, endpoint: str, as_json: bool) -> None:
    """Show the queues of the topic NAME and what they hold."""
    async with AdminClient(endpoint) as stub:
        request = admin.DescribeTopicRequest(name=name)
        response = await stub.DescribeTopic(request, timeout=TIMEOUT_S)
    if as_json:
        document(MessageToDict(response, always_print_fields_with_no_presence=True))
        return
    click.echo(f"{response.topic.name}: {response.topic.message_type}")
    rows = [
        (queue.broker, queue.queue_id, queue.min_offset, queue.max_offset)
        for queue in response.queues
    ]
    table(["BROKER", "QUEUE", "FIRST", "NEXT"], rows)


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
@running
async def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete the topic NAME and the messages in it."""
    if not yes:
        click.confirm(f"Delete topic {name} and all its messages?", abort=True, err=True)
    async with AdminClient(endpoint) as stub:
        await stub.DeleteTopic(admin.DeleteTopicRequest(name=name), timeout=TIMEOUT_S)
    if as_json:
        document({"deleted": name})
    else:
        click.echo(f"Topic {name} is deleted.")
