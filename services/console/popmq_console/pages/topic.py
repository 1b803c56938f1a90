"""/topics/NAME: queues, groups, and a look at messages that receives none."""

from functools import partial
from typing import Any

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted
from popmq_console.asking.peek import Peek, PeekAsked, peek_asked, peeked
from popmq_console.asking.readings import inspected
from popmq_console.reading.bodies_shown import head_of
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.reading.commands import command
from popmq_console.reading.groups import uses_of_topic
from popmq_console.visit import FormRefused, Visit, named

QUEUES_SHOWN = 64


async def topic(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    name = visit.request.path_params["name"]
    found = await visit.ask("DescribeTopic", admin.DescribeTopicRequest(name=name))
    uses = uses_of_topic(await inspected(visit), name)
    peek, why_not, wrong = await _peek(visit, name, found)
    queues = sorted(found.queues, key=lambda one: (one.broker, one.queue_id))
    return visit.page(
        "topic.html",
        area="/topics",
        name=name,
        topic=found.topic,
        queues=queues[:QUEUES_SHOWN],
        queues_left_out=max(0, len(queues) - QUEUES_SHOWN),
        stored=sum(one.max_offset - one.min_offset for one in queues),
        ever=sum(one.max_offset for one in queues),
        uses=uses,
        peek=peek,
        head_of=partial(head_of, types=visit.console.config.protobuf),
        why_not=why_not,
        wrong=wrong,
        may_send=await visit.may_change(f"Topic:{name}", "Pub"),
        may_delete=await visit.may_change(f"Topic:{name}", "Delete"),
    )


async def _peek(visit: Visit, name: str, found: Any) -> tuple[Peek | None, str, str]:
    """The messages; or why this visitor may not see them; and what is wrong with the address."""
    try:
        asked, wrong = peek_asked(visit.parameters, visit.now_ms), ""
    except ValueError as mistake:
        asked, wrong = PeekAsked(), str(mistake)
    try:
        return await peeked(visit, name, list(found.queues), asked), "", wrong
    except CallFailed as failed:
        if failed.failure is Failure.DENIED:
            return None, failed.text, wrong
        if failed.failure in (Failure.REFUSED, Failure.OLDER) and asked.wanted.sql:
            return Peek(asked, [], 0, more=False), "", failed.text
        raise


async def delete_topic_page(visit: Visit) -> Response:
    """What would be lost. Raises `CallFailed`."""
    name = visit.request.path_params["name"]
    found = await visit.ask("DescribeTopic", admin.DescribeTopicRequest(name=name))
    stored = sum(one.max_offset - one.min_offset for one in found.queues)
    uses = uses_of_topic(await inspected(visit), name)
    facts = [f"{counted(stored, 'message')} in {counted(len(found.queues), 'queue')} are deleted."]
    for use in uses or []:
        facts.append(f"Group {use.group} has not finished {counted(use.lag, 'message')} of them.")
    if uses is None:
        facts.append("Which groups read it is not known.")
    return visit.page(
        "confirm.html",
        area="/topics",
        trail=[("/topics", "Topics"), (named("topics", name), name)],
        title=f"Delete topic {name}",
        facts=facts,
        name=name,
        action=named("topics", name, "delete"),
        button="Delete the topic",
        shell=command("topic", "delete", name),
        hidden={},
    )


async def delete_topic(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    name = visit.request.path_params["name"]
    form = await visit.change_form()
    check_name(str(form.get("name", "")), name)
    text = command("topic", "delete", name, yes=True)
    await visit.change("DeleteTopic", admin.DeleteTopicRequest(name=name), text)
    visit.tell(f"Topic {name} is deleted.")
    return visit.go("/topics")


def check_name(typed: str, name: str) -> None:
    """Raises `FormRefused`: somebody who does not know what is meant does not do it."""
    if typed.strip() != name:
        raise FormRefused(f"The name that you typed is not {name}. Nothing was changed.")
