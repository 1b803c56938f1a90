"""/groups/NAME/reset: a group goes on elsewhere; first what that would skip or repeat."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.pages.topic import check_name
from popmq_console.reading.commands import command
from popmq_console.reading.peeking import queue_of
from popmq_console.visit import FormRefused, Visit
from popmq_readings.times import point_in_time

TARGETS: Final = {
    "earliest": "the oldest message there is",
    "latest": "messages that are sent from now on",
    "time": "messages stored since a time",
    "offset": "an offset of one queue",
}


async def reset_page(visit: Visit) -> Response:
    """The form, and with a target in the address the preview. Raises `CallFailed`."""
    name = visit.request.path_params["name"]
    described = await visit.ask("DescribeGroup", admin.DescribeGroupRequest(name=name))
    topics = sorted({queue.topic for queue in described.queues})
    parameters = visit.parameters
    planned, wrong = None, ""
    if "to" in parameters:
        try:
            request = reset_request(name, parameters, visit.now_ms)
        except ValueError as mistake:
            wrong = str(mistake)
        else:
            request.dry_run = True
            planned = await visit.ask("ResetOffsets", request)
    return visit.page(
        "reset.html",
        area="/groups",
        name=name,
        topics=topics,
        targets=TARGETS,
        chosen=parameters,
        wrong=wrong,
        planned=planned,
        skipped=sum(max(0, one.to_offset - one.from_offset) for one in _queues(planned)),
        repeated=sum(max(0, one.from_offset - one.to_offset) for one in _queues(planned)),
        fenced=sum(one.fenced for one in _queues(planned)),
        shell=reset_command(name, parameters) if planned is not None else "",
        may_update=await visit.may_change(f"Group:{name}", "Update"),
    )


def _queues(planned: admin.ResetOffsetsResponse | None) -> list[admin.QueueReset]:
    return [] if planned is None else list(planned.queues)


async def reset(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    name = visit.request.path_params["name"]
    form = await visit.change_form()
    check_name(str(form.get("name", "")), name)
    given = {key: str(value) for key, value in form.items()}
    try:
        request = reset_request(name, given, visit.now_ms)
    except ValueError as wrong:
        raise FormRefused(f"Nothing was changed: {wrong}.") from wrong
    text = f"{reset_command(name, given)} --yes"
    done = await visit.change("ResetOffsets", request, text)
    return visit.page("reset_done.html", area="/groups", name=name, done=done, shell=text)


def reset_request(group: str, given: Mapping[str, str], now_ms: int) -> admin.ResetOffsetsRequest:
    """Raises `ValueError`."""
    topic, at = given.get("topic", "").strip(), given.get("at", "").strip()
    if not topic:
        raise ValueError("say which topic")
    request = admin.ResetOffsetsRequest(group=group, topic=topic)
    broker, queue_id = queue_of(given.get("queue", "").strip())
    if queue_id is not None:
        if not broker:
            raise ValueError("name the queue with its broker, like broker-a:0")
        request.broker, request.queue_id = broker, queue_id
    match given.get("to", ""):
        case "earliest":
            request.earliest = True
        case "latest":
            request.latest = True
        case "time":
            request.time_ms = point_in_time(at, now_ms)
        case "offset":
            if queue_id is None or not (at.isascii() and at.isdigit() and len(at) <= 18):
                raise ValueError("an offset is a number, and needs a queue like broker-a:0")
            request.offset = int(at)
        case other:
            raise ValueError(f"{other!r} is none of {', '.join(TARGETS)}")
    return request


def reset_command(group: str, given: Mapping[str, str]) -> str:
    to, at = given.get("to", ""), given.get("at", "").strip()
    options: dict[str, object] = {f"to_{to}": at if to in ("time", "offset") else True}
    queue = given.get("queue", "").strip()
    return command("group", "reset-offset", group, given.get("topic", ""), **options, queue=queue)
