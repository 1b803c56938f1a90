"""/topics/NAME/send: a test message; /recall: a delayed one is taken back."""

from datetime import UTC, datetime
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.responses import Response

from popmq.errors import PopMQClientError
from popmq_console.reading.commands import command
from popmq_console.visit import FormRefused, Visit, named
from popmq_readings.times import duration_ms, point_in_time

BODY_BYTES_MAX: Final = 4 << 20
PROPERTIES_MAX: Final = 100


async def send(visit: Visit) -> Response:
    """Raises `FormRefused`."""
    topic = visit.request.path_params["name"]
    form = await visit.change_form()
    try:
        body, options = message_of(form, visit.now_ms)
    except ValueError as wrong:
        raise FormRefused(f"The message cannot be sent: {wrong}.") from wrong
    text = _command(topic, form)
    try:
        async with visit.client() as client:
            receipt = await client.send(topic, body, **options)
    except (PopMQClientError, ValueError) as refused:
        visit.note(text, f"refused: {refused}")
        raise FormRefused(f"The message was not sent: {refused}") from refused
    visit.note(text, f"sent {receipt.message_id}")
    handle = receipt.recall_handle
    told = f"Sent {receipt.message_id}."
    visit.tell(f"{told} To take it back: {handle}" if handle else told)
    return visit.go(named("topics", topic), peek="newest")


def message_of(form: FormData, now_ms: int) -> tuple[bytes, dict[str, Any]]:
    """Its body, and the options of `Client.send`. Raises `ValueError`."""
    body = str(form.get("body", "")).replace("\r\n", "\n").encode()
    if len(body) > BODY_BYTES_MAX:
        raise ValueError(f"the body has {len(body)} bytes, at most {BODY_BYTES_MAX}")
    options: dict[str, Any] = {"keys": str(form.get("keys", "")).split()}
    for name in ("tag", "message_group"):
        if value := str(form.get(name, "")).strip():
            options[name] = value
    options["properties"] = properties_of(str(form.get("properties", "")))
    if delay := str(form.get("delay", "")).strip():
        options["delay_s"] = duration_ms(delay) / 1000
    if at := str(form.get("deliver_at", "")).strip():
        ms = point_in_time(at, now_ms, ago=False)
        options["deliver_at"] = datetime.fromtimestamp(ms / 1000, UTC)
    return body, options


def properties_of(text: str) -> dict[str, str]:
    """Of lines NAME=VALUE. Raises `ValueError`."""
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{line!r} is not written NAME=VALUE")
        found[name.strip()] = value.strip()
    if len(found) > PROPERTIES_MAX:
        raise ValueError(f"{len(found)} properties, at most {PROPERTIES_MAX}")
    return found


def _command(topic: str, form: FormData) -> str:
    return command(
        "send",
        topic,
        str(form.get("body", ""))[:200],
        tag=form.get("tag"),
        key=str(form.get("keys", "")).split(),
        message_group=form.get("message_group"),
        property=str(form.get("properties", "")).splitlines(),
        delay=form.get("delay"),
        at=form.get("deliver_at"),
    )


async def recall_page(visit: Visit) -> Response:
    """Asks before. Raises `FormRefused` for an address that names no message."""
    topic, handle = visit.parameters.get("topic", ""), visit.parameters.get("handle", "")
    if not topic or not handle:
        raise FormRefused("The address names no message: ?topic=…&handle=…")
    shown = visit.parameters.get("id", "") or "the message of this handle"
    return visit.page(
        "confirm.html",
        area="/later",
        trail=[("/later", "Delayed and transactions")],
        title="Take a delayed message back",
        facts=[f"{shown} of topic {topic} is taken back: nobody will receive it."],
        name="",
        action="/recall",
        button="Take it back",
        shell=command("recall", topic, handle),
        hidden={"topic": topic, "handle": handle},
    )


async def recall(visit: Visit) -> Response:
    """Raises `FormRefused`."""
    form = await visit.change_form()
    topic, handle = str(form.get("topic", "")).strip(), str(form.get("handle", "")).strip()
    text = command("recall", topic, handle)
    try:
        async with visit.client() as client:
            await client.recall(topic, handle)
    except (PopMQClientError, ValueError) as refused:
        visit.note(text, f"refused: {refused}")
        raise FormRefused(f"It was not taken back: {refused}") from refused
    visit.note(text, "done")
    visit.tell("Taken back: it will not be delivered.")
    return visit.go("/later")
