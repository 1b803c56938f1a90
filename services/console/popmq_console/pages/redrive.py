"""/dead-letters/GROUP/redrive and /purge: dead letters are sent again, or deleted."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import FormData
from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted
from popmq_console.asking.letters import letters
from popmq_console.pages.topic import check_name
from popmq_console.reading.calls import CallFailed, each
from popmq_console.reading.commands import command
from popmq_console.reading.dead_letters import outcome_of
from popmq_console.visit import FormRefused, Visit, named

CHOSEN_MAX: Final = 1_000
"""Of one action; all of a reason is done in several."""
LISTED_MAX: Final = 100
PACED_S_MAX: Final = 50
"""A page takes no longer; reverse proxies often wait for a minute."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One letter: its place, by a cursor of the server's, and its id."""

    cursor: str
    message_id: str

    @classmethod
    def parse(cls, text: str) -> "Chosen":
        """Of `<cursor> <message id>`. Raises `FormRefused`."""
        cursor, blank, message_id = text.partition(" ")
        if not blank or not cursor:
            raise FormRefused("A chosen message is written wrongly. Load the page again.")
        return cls(cursor, message_id)

    def __str__(self) -> str:
        return f"{self.cursor} {self.message_id}"


async def redrive_preview(visit: Visit) -> Response:
    """What would be sent, and what would be left. Raises `FormRefused`, `CallFailed`."""
    group = visit.request.path_params["name"]
    form = await visit.change_form()
    to_topic = form.get("to") == "topic"
    chosen = await _chosen(visit, group, form)
    if not chosen:
        raise FormRefused("Choose messages first, or a reason.")
    planned = await _each_one(visit, group, chosen, to_topic=to_topic, dry_run=True)
    outcomes = [outcome for _, outcome in planned]
    return visit.page(
        "redrive.html",
        area="/dead-letters",
        group=group,
        chosen=chosen,
        planned=planned[:LISTED_MAX],
        left_out=max(0, len(planned) - LISTED_MAX),
        sends=sum(outcome == "sent" for outcome in outcomes),
        lefts=sum(outcome != "sent" for outcome in outcomes),
        to_topic=to_topic,
        shell=_command(group, form, chosen, to_topic=to_topic),
    )


async def redrive(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    group = visit.request.path_params["name"]
    form = await visit.change_form()
    to_topic = form.get("to") == "topic"
    if to_topic:
        check_name(str(form.get("name", "")), group)
    chosen = await _chosen(visit, group, form)
    per_second = _pace(form, len(chosen))
    done = await _sent(visit, group, chosen, per_second or CHOSEN_MAX, to_topic=to_topic)
    sent = sum(outcome == "sent" for _, outcome in done)
    text = _command(group, form, chosen, to_topic=to_topic, per_second=per_second)
    visit.note(text, f"{sent} of {counted(len(done), 'dead letter')} sent")
    return visit.page(
        "redriven.html", area="/dead-letters", group=group, done=done, sent=sent, shell=text
    )


async def _chosen(visit: Visit, group: str, form: FormData) -> list[Chosen]:
    """The boxes that are ticked; or all with exactly one reason that were not sent again."""
    if "all_of" not in form:
        ticked = [Chosen.parse(str(one)) for one in form.getlist("chosen")]
        if len(ticked) > CHOSEN_MAX:
            raise FormRefused(f"{len(ticked)} messages are chosen, at most {CHOSEN_MAX} at a time.")
        return ticked
    reason = str(form["all_of"])
    wanted = admin.DeadLetterFilter(reason=reason)
    found = await letters(visit, group, wanted, most=5 * CHOSEN_MAX)
    fitting = [one for one in found.found if one.reason == reason and not one.redriven]
    return [Chosen(one.cursor, one.message_id) for one in fitting[:CHOSEN_MAX]]


def _pace(form: FormData, count: int) -> int:
    """Messages a second; 0: as fast as it goes. Raises `FormRefused`."""
    text = str(form.get("per_second", "")).strip()
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 6 and int(text)):
        raise FormRefused(f"{text!r} messages a second: write a number from 1 on.")
    if count > int(text) * PACED_S_MAX:
        raise FormRefused(
            f"{counted(count, 'dead letter')} at {text} a second take longer than {PACED_S_MAX} s, "
            "and a page waits no longer. Choose fewer, or use popmq dlq redrive --per-second."
        )
    return int(text)


async def _sent(
    visit: Visit, group: str, chosen: list[Chosen], per_second: int, *, to_topic: bool
) -> list[tuple[Chosen, str]]:
    """So many, and the rest of their second."""
    done: list[tuple[Chosen, str]] = []
    began_s = time.monotonic()
    for at in range(0, len(chosen), per_second):
        await asyncio.sleep(began_s + at / per_second - time.monotonic())
        part = chosen[at : at + per_second]
        done += await _each_one(visit, group, part, to_topic=to_topic, dry_run=False)
    return done


async def _each_one(
    visit: Visit, group: str, chosen: list[Chosen], *, to_topic: bool, dry_run: bool
) -> list[tuple[Chosen, str]]:
    """With what became of each."""

    async def one(letter: Chosen) -> tuple[Chosen, str]:
        which = admin.RedriveDeadLettersRequest(
            group=group,
            filter=admin.DeadLetterFilter(message_id=letter.message_id),
            cursor=letter.cursor,
            count_max=1,
        )
        request = admin.RedriveRequest(which=which, to_topic=to_topic, dry_run=dry_run)
        try:
            return letter, outcome_of(await visit.ask("Redrive", request))
        except CallFailed as failed:
            return letter, f"refused: {failed.text}"

    return await each(one, chosen)


def _command(
    group: str, form: FormData, chosen: list[Chosen], *, to_topic: bool, per_second: int = 0
) -> str:
    if "all_of" in form:
        options = {"reason": str(form["all_of"]), "to_topic": to_topic}
        return command("dlq", "redrive", group, **options, per_second=per_second or None)
    first = chosen[0].message_id if chosen else "MESSAGE"
    text = command("dlq", "redrive", group, id=first, to_topic=to_topic)
    return text if len(chosen) < 2 else f"{text}  # and {len(chosen) - 1} more, one at a time"


async def purge_preview(visit: Visit) -> Response:
    """How many would be deleted. Raises `CallFailed`."""
    group = visit.request.path_params["name"]
    planned = await visit.ask(
        "PurgeDeadLetters", admin.PurgeDeadLettersRequest(group=group, dry_run=True)
    )
    count = sum(queue.count for queue in planned.queues)
    again = sum(queue.redriven for queue in planned.queues)
    until = " ".join(f"{queue.broker}={queue.until_offset}" for queue in planned.queues)
    return visit.page(
        "confirm.html",
        area="/dead-letters",
        trail=[("/dead-letters", "Dead letters"), (named("dead-letters", group), group)],
        title=f"Delete the dead letters of {group}",
        facts=[
            f"{counted(count, 'dead letter')} are deleted; {again:,} of them were sent again.",
            "They are no longer listed and cannot be sent again.",
            "Messages that become dead letters meanwhile are kept.",
        ],
        name=group,
        action=named("dead-letters", group, "purge"),
        button="Delete them",
        shell=command("dlq", "purge", group, all=True),
        hidden={"until": until},
    )


async def purge(visit: Visit) -> Response:
    """Only what the preview counted. Raises `FormRefused`, `CallFailed`."""
    group = visit.request.path_params["name"]
    form = await visit.change_form()
    check_name(str(form.get("name", "")), group)
    request = admin.PurgeDeadLettersRequest(group=group)
    for pair in str(form.get("until", "")).split():
        broker, _, offset = pair.rpartition("=")
        if not broker or not (offset.isascii() and offset.isdigit() and len(offset) <= 18):
            raise FormRefused("The form is written wrongly. Load the page again.")
        request.until.add(broker=broker, until_offset=int(offset))
    if not request.until:
        raise FormRefused("There is nothing to delete.")
    text = command("dlq", "purge", group, all=True, yes=True)
    done = await visit.change("PurgeDeadLetters", request, text)
    visit.tell(f"Deleted {counted(sum(queue.count for queue in done.queues), 'dead letter')}.")
    return visit.go(named("dead-letters", group))
