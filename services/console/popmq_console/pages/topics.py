"""/topics: the list; a topic is created."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.asking.readings import all_topics, look, topics_or_none
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.reading.commands import command
from popmq_console.reading.sheets import Column, asked, sheet
from popmq_console.visit import Visit, named

TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")


@dataclass(slots=True)
class TopicLine:
    """None: not known; brokers tell the figures of their busiest topics."""

    name: str
    message_type: str
    queues: int
    read_queues: int
    owner: str = ""
    in_s: float | None = None
    stored: int | None = None


COLUMNS: Final[Mapping[str, Column[TopicLine]]] = {
    "name": lambda one: one.name,
    "type": lambda one: one.message_type,
    "queues": lambda one: one.queues,
    "rate": lambda one: one.in_s,
    "stored": lambda one: one.stored,
    "owner": lambda one: one.owner or None,
}


async def topics(visit: Visit) -> Response:
    with_system = visit.parameters.get("system") == "1"
    kind = visit.parameters.get("type", "")
    try:
        found = await all_topics(visit, system=with_system)
    except CallFailed as failed:
        if failed.failure is not Failure.DENIED:
            raise
        return visit.page("by_name.html", area="/topics", what="topics", why=failed.text)
    view = await look(visit)
    figures = {one.topic: one for one in view.topics} if view is not None else {}
    lines = []
    for one in found:
        if kind in ("", one.message_type):
            line = TopicLine(one.name, one.message_type, one.queues, one.read_queues, one.owner)
            if one.name in figures:
                line.in_s, line.stored = figures[one.name].in_s, figures[one.name].stored
            lines.append(line)
    wanted = asked(visit.parameters, list(COLUMNS), "name")
    return visit.page(
        "topics.html",
        area="/topics",
        sheet=sheet(lines, wanted, COLUMNS, lambda one: one.name),
        kinds=TYPES,
        kind=kind,
        with_system=with_system,
        may_create=await visit.may_change("Topic:*", "Create"),
    )


async def create_topic(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    form = await visit.change_form()
    name, kind = str(form.get("name", "")).strip(), str(form.get("type", "NORMAL"))
    queues = str(form.get("queues", "8"))
    text = command("topic", "create", name, type=kind, queues=queues)
    count = int(queues) if queues.isascii() and queues.isdigit() and len(queues) < 6 else 0
    topic = admin.Topic(name=name, message_type=kind, queues=count)
    await visit.change("CreateTopic", admin.CreateTopicRequest(topic=topic), text)
    visit.tell(f"Topic {name} is created.")
    return visit.go(named("topics", name))


async def topic_names(visit: Visit) -> list[str]:
    """Empty where this visitor may not list them."""
    return [one.name for one in await topics_or_none(visit) or []]
