"""popmq topic: create, change, spread, list, show, delete."""

from collections.abc import Sequence

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.catalog.owner import (
    new_owner_option,
    owned_by,
    owned_by_option,
    owned_table,
    owner_option,
    owner_text,
)
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.completion import topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import confirm, document, fields, table
from popmq_cli.shell.parameters import Number
from popmq_common.words import counted, numbered

SPREAD_S = 120.0
TYPES = ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]


@click.group(cls=CommandGroup)
def topic() -> None:
    """Create, change, spread, list, show and delete topics."""


type_option = click.option(
    "--type",
    "message_type",
    type=click.Choice(TYPES, case_sensitive=False),
    metavar="|".join(TYPES),
    help="Which messages the topic takes; MIXED takes all.",
)
queues_option = click.option(
    "--queues", type=Number(1, 1024), help="Number of queues on each broker."
)


@topic.command()
@click.argument("name")
@type_option
@queues_option
@owner_option
@client_options
@running
async def create(
    name: str,
    message_type: str | None,
    queues: int | None,
    owner: str | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Create the topic NAME on every broker.

    The defaults are NORMAL and 8 queues on each broker. If the topic exists with other settings,
    the command is refused: use `popmq topic set`.
    """
    wanted = admin.Topic(
        name=name,
        message_type=(message_type or "NORMAL").upper(),
        queues=queues or 8,
        owner=owner or "",
    )
    async with AdminClient(endpoint) as stub:
        request = admin.CreateTopicRequest(topic=wanted)
        response = await stub.CreateTopic(request, timeout=TIMEOUT_S)
    if as_json:
        _document(wanted, response.brokers, existed=response.existed)
        return
    before = " already" if response.existed else ""
    where = ", ".join(response.brokers)
    settings = f"{_settings(wanted)}{owner_text(wanted.owner)}"
    click.echo(f"Topic {name} ({settings}) is on {where}{before}.")


@topic.command("set")
@click.argument("name", shell_complete=topic_names)
@type_option
@queues_option
@new_owner_option
@click.option(
    "--place-groups-anew",
    is_flag=True,
    help="Spread message groups over the brokers there are now; their messages may be reordered.",
)
@client_options
@running
async def set_topic(
    name: str,
    message_type: str | None,
    queues: int | None,
    owner: str | None,
    place_groups_anew: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Change settings of the topic NAME.

    Settings that are not given stay as they are. With fewer queues, the surplus queues take no more
    messages. They are read until retention has deleted what is stored in them.
    """
    request = admin.UpdateTopicRequest(name=name, owner=owner, place_groups_anew=place_groups_anew)
    if message_type is not None:
        request.message_type = message_type.upper()
    if queues is not None:
        request.queues = queues
    async with AdminClient(endpoint) as stub:
        response = await stub.UpdateTopic(request, timeout=TIMEOUT_S)
    if as_json:
        _document(response.topic, response.brokers)
        return
    where = ", ".join(response.brokers)
    settings = f"{_settings(response.topic)}{owner_text(response.topic.owner)}"
    click.echo(f"Topic {name} ({settings}) is on {where}.")
    _tell_drained(response.topic)


@topic.command()
@click.argument("name", required=False, shell_complete=topic_names)
@click.option(
    "--all", "all_topics", is_flag=True, help="Create all topics on the brokers that lack them."
)
@client_options
@running
async def spread(name: str | None, all_topics: bool, endpoint: str, as_json: bool) -> None:
    """Create the topic NAME on the brokers that lack it.

    Do this after you added a broker: until then it gets no messages of existing topics.
    """
    if (name is None) != all_topics:
        raise click.UsageError("say which: either the name of a topic, or --all")
    async with AdminClient(endpoint) as stub:
        request = admin.SpreadTopicsRequest(name=name or "")
        response = await stub.SpreadTopics(request, timeout=SPREAD_S)
    if as_json:
        document([fields(found) for found in response.topics])
        return
    for found in response.topics:
        click.echo(f"Topic {found.name} is now on {', '.join(found.brokers)} too.")
    if not response.topics:
        click.echo("Every broker has it already." if name else "Every broker has every topic.")


def _settings(found: admin.Topic) -> str:
    return f"{found.message_type}, {counted(found.queues, 'queue')}"


def _tell_drained(found: admin.Topic) -> None:
    if found.read_queues > found.queues:
        those = numbered("queue", found.queues, found.read_queues - 1).capitalize()
        one = found.read_queues == found.queues + 1
        takes, they_are = ("takes", "It is") if one else ("take", "They are")
        click.echo(
            f"{those} {takes} no more messages. {they_are} read until retention has deleted what "
            "is stored in " + ("it." if one else "them.")
        )


def _document(found: admin.Topic, brokers: Sequence[str], **more: bool) -> None:
    document({"topic": fields(found), "brokers": list(brokers), **more})


@topic.command("list")
@click.option(
    "--system", is_flag=True, help="Also list retry topics, dead letters and internal topics."
)
@owned_by_option
@client_options
@running
async def list_topics(system: bool, owner: str | None, endpoint: str, as_json: bool) -> None:
    """List the topics."""
    async with AdminClient(endpoint) as stub:
        request = admin.ListTopicsRequest(system=system)
        response = await stub.ListTopics(request, timeout=TIMEOUT_S)
    topics = owned_by(response.topics, owner)
    if as_json:
        document([fields(found) for found in topics])
        return
    owned_table(
        ["TOPIC", "TYPE", "QUEUES"],
        topics,
        lambda found: (found.name, found.message_type, found.queues),
    )


@topic.command()
@click.argument("name", shell_complete=topic_names)
@client_options
@running
async def show(name: str, endpoint: str, as_json: bool) -> None:
    """Show the queues of the topic NAME and their offsets."""
    async with AdminClient(endpoint) as stub:
        request = admin.DescribeTopicRequest(name=name)
        response = await stub.DescribeTopic(request, timeout=TIMEOUT_S)
    if as_json:
        document(fields(response))
        return
    click.echo(f"{response.topic.name}: {_settings(response.topic)} on each broker")
    if response.topic.owner:
        click.echo(f"Owner: {response.topic.owner}")
    _tell_drained(response.topic)
    rows = [
        (queue.broker, queue.queue_id, queue.min_offset, queue.max_offset)
        for queue in response.queues
    ]
    table(["BROKER", "QUEUE", "FIRST", "NEXT"], rows)


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@client_options
@running
async def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete the topic NAME and all its messages."""
    confirm(f"Delete topic {name} and all its messages?", yes=yes)
    async with AdminClient(endpoint) as stub:
        await stub.DeleteTopic(admin.DeleteTopicRequest(name=name), timeout=TIMEOUT_S)
    if as_json:
        document({"deleted": name})
    else:
        click.echo(f"Topic {name} is deleted.")
