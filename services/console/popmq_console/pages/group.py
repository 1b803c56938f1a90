"""/groups/NAME: where it is in each queue, what holds it up, how it is set."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted
from popmq_console.asking.letters import letters_kept
from popmq_console.asking.readings import look, message_at
from popmq_console.pages.topic import check_name
from popmq_console.reading.calls import CallFailed, Failure, each
from popmq_console.reading.commands import command
from popmq_console.reading.groups import settings_of, stuck_queues, topics_of_group
from popmq_console.reading.peeking import QueuePlace
from popmq_console.visit import FormRefused, Visit, named
from popmq_readings.retry_policies import parse_policy, policy_text

STUCK_SHOWN: Final = 12
QUEUES_SHOWN: Final = 128


async def group(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    name = visit.request.path_params["name"]
    found = await visit.ask("DescribeGroup", admin.DescribeGroupRequest(name=name))
    view = await look(visit)
    queues = sorted(found.queues, key=lambda one: (one.topic, one.broker, one.queue_id))
    topics = topics_of_group(queues, view.groups if view is not None else [], name)
    return visit.page(
        "group.html",
        area="/groups",
        name=name,
        group=found.group,
        policy=policy_text(found.group.retry_policy),
        settings=settings_of(found.group, policy_text(found.group.retry_policy)),
        topics=topics,
        queues=queues[:QUEUES_SHOWN],
        queues_left_out=max(0, len(queues) - QUEUES_SHOWN),
        opened=await open_queues(visit, queues),
        dead=await letters_kept(visit, name),
        may_update=await visit.may_change(f"Group:{name}", "Update"),
        may_delete=await visit.may_change(f"Group:{name}", "Delete"),
    )


class OpenQueue(NamedTuple):
    """A queue that the group is not done with. None: there is no such message, or this visitor may
    not see it."""

    queue: admin.GroupQueue
    delivered: admin.StoredMessage | None
    """The last one that a consumer got; only where consumers hold some."""
    following: admin.StoredMessage | None
    """The first one that none got."""


async def open_queues(visit: Visit, queues: list[admin.GroupQueue]) -> list[OpenQueue]:
    """Those with the largest lag."""

    async def message(queue: admin.GroupQueue, offset: int) -> admin.StoredMessage | None:
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        place = QueuePlace(queue.broker, queue.queue_id, offset)
        try:
            return await message_at(visit, queue.topic, place)
        except CallFailed as failed:
            if failed.failure in (Failure.DENIED, Failure.NOT_THERE):
                return None
            raise

    async def one(queue: admin.GroupQueue) -> OpenQueue:
        at = max(queue.committed_offset, queue.min_offset)
        held = await message(queue, at - 1) if queue.in_flight else None
        return OpenQueue(queue, held, await message(queue, at))

    return await each(one, stuck_queues(queues, STUCK_SHOWN))


async def change_group(visit: Visit) -> Response:
    """Settings. Raises `FormRefused`, `CallFailed`."""
    name = visit.request.path_params["name"]
    form = await visit.change_form()
    given = {key: str(form.get(key, "")).strip() for key in ("max_attempts", "retry_policy")}
    try:
        request = _change(name, given)
    except ValueError as wrong:
        raise FormRefused(f"Nothing was changed: {wrong}.") from wrong
    text = command("group", "set", name, **given)
    await visit.change("UpdateGroup", request, text)
    visit.tell(f"The settings of group {name} are changed.")
    return visit.go(named("groups", name))


def _change(name: str, given: Mapping[str, str]) -> admin.UpdateGroupRequest:
    """Raises `ValueError`."""
    request = admin.UpdateGroupRequest(name=name)
    if given["max_attempts"]:
        request.max_attempts = int(given["max_attempts"])
    if given["retry_policy"]:
        request.retry_policy.CopyFrom(parse_policy(given["retry_policy"]))
    return request


async def delete_group_page(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    name = visit.request.path_params["name"]
    found = await visit.ask("DescribeGroup", admin.DescribeGroupRequest(name=name))
    lag, held = sum(one.lag for one in found.queues), sum(one.in_flight for one in found.queues)
    return visit.page(
        "confirm.html",
        area="/groups",
        trail=[("/groups", "Groups"), (named("groups", name), name)],
        title=f"Delete group {name}",
        facts=[
            f"Its offsets in {counted(len(found.queues), 'queue')} are forgotten.",
            f"It has not finished {counted(lag, 'message')}; consumers hold {held:,} of them.",
            "The messages stay in their topics.",
        ],
        name=name,
        action=named("groups", name, "delete"),
        button="Delete the group",
        shell=command("group", "delete", name),
        hidden={},
    )


async def delete_group(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    name = visit.request.path_params["name"]
    form = await visit.change_form()
    check_name(str(form.get("name", "")), name)
    text = command("group", "delete", name, yes=True)
    await visit.change("DeleteGroup", admin.DeleteGroupRequest(name=name), text)
    visit.tell(f"Group {name} is deleted.")
    return visit.go("/groups")
