"""/message: one message: its time line, why it is or is not received, and what it is."""

from typing import Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.asking.readings import message_at
from popmq_console.reading.bodies_shown import shown_message
from popmq_console.reading.calls import EXPLAIN_S, SEARCH_S, CallFailed, Failure
from popmq_console.reading.commands import command
from popmq_console.reading.peeking import QueuePlace
from popmq_console.visit import FormRefused, Visit

ID_CHARS_MAX: Final = 512
NOTHING: Final = "unknown"
TONES: Final = {"dead": "dead", "ready": "visible", "acked": "settled", "recalled": "settled"}
KINDS: Final = {
    "sent": "stored",
    "delivered": "stored",
    "committed": "stored",
    "redriven": "stored",
    "acked": "acked",
    "recalled": "acked",
    "dead": "dead",
    "given-up": "dead",
    "delivered-to": "leased",
    "renewed": "leased",
    "changed": "leased",
    "nacked": "nacked",
    "retry": "retry",
}
"""Kinds of events → how they are coloured."""


async def message(visit: Visit) -> Response:
    """Raises `CallFailed`, `FormRefused` for an address that names no message."""
    topic, group = visit.parameters.get("topic", ""), visit.parameters.get("group", "")
    message_id = visit.parameters.get("id", "").strip()[:ID_CHARS_MAX]
    stored, why_no_body = None, ""
    if at := visit.parameters.get("at", ""):
        stored = await message_at(visit, topic, place_of(at))
        if stored is None:
            raise CallFailed(Failure.NOT_THERE, f"topic {topic} has no message at {at}")
        message_id = stored.message_id
    elif not message_id:
        raise FormRefused("The address names no message: ?id=…, or ?topic=…&at=BROKER:QUEUE:OFFSET")
    told = None
    if message_id:
        request = admin.ExplainRequest(message_id=message_id, topic=topic, group=group)
        told = await visit.ask("Explain", request, timeout_s=EXPLAIN_S)
        topic = topic or told.topic
    if stored is None and topic:
        stored, why_no_body = await _by_id(visit, topic, message_id)
    return visit.page(
        "message.html",
        status=200 if stored is not None or (told is not None and told.found) else 404,
        area="/topics",
        message_id=message_id or f"{topic} {visit.parameters.get('at', '')}",
        topic=topic,
        group=group,
        told=told,
        verdicts=[] if told is None else [(one, tone_of(one)) for one in told.verdicts],
        dead=[] if told is None else sorted({v.group for v in told.verdicts if v.state == "dead"}),
        stored=stored,
        why_no_body=why_no_body,
        body=None if stored is None else shown_message(stored, visit.console.config.protobuf),
        kinds=KINDS,
        shell=command("explain", message_id, topic=topic, group=group),
    )


def tone_of(verdict: admin.Verdict) -> str:
    return "visible" if verdict.visible else TONES.get(verdict.state, "")


def place_of(text: str) -> QueuePlace:
    """Of BROKER:QUEUE:OFFSET. Raises `FormRefused`."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not all(one.isascii() and one.isdigit() for one in parts[1:]):
        raise FormRefused(f"{text!r} is no place: write BROKER:QUEUE:OFFSET")
    if len(parts[1]) > 9 or len(parts[2]) > 18:
        raise FormRefused(f"{text!r} is no place: a number is too large")
    return QueuePlace(parts[0], int(parts[1]), int(parts[2]))


async def _by_id(
    visit: Visit, topic: str, message_id: str
) -> tuple[admin.StoredMessage | None, str]:
    """And why there is none to see; empty: it is not stored any more."""
    request = admin.FindMessagesRequest(
        topic=topic, key=message_id, id_only=True, count_max=1, whole=True
    )
    try:
        found = await visit.ask("FindMessages", request, timeout_s=SEARCH_S)
    except CallFailed as failed:
        if failed.failure in (Failure.DENIED, Failure.NOT_THERE):
            return None, failed.text
        raise
    return (found.messages[0] if found.messages else None), ""
