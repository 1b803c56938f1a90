"""/dead-letters: groups that gave messages up; /dead-letters/GROUP: which, and why."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response, StreamingResponse

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.asking.letters import (
    SCAN_MAX,
    groups_with_letters,
    letter_pages,
    letters,
    letters_kept,
)
from popmq_console.reading.calls import each
from popmq_console.reading.commands import command
from popmq_console.reading.dead_letters import as_csv, as_json_lines, reasons
from popmq_console.reading.sheets import Column, asked, sheet
from popmq_console.visit import FormRefused, Visit

EXPORT_MAX: Final = 100_000
EXPORT_PAGE: Final = 200
FORMATS: Final = {"csv": "text/csv; charset=utf-8", "json": "application/x-ndjson"}


@dataclass(slots=True)
class LettersLine:
    group: str
    stored: int | None = None
    """Letters that are kept, also those sent again; None: not known."""


COLUMNS: Final[Mapping[str, Column[LettersLine]]] = {"name": lambda one: one.group}


async def dead_letters(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    groups = await groups_with_letters(visit)
    if groups is None:
        why = "the list of topics tells which groups have any"
        return visit.page("by_name.html", area="/dead-letters", what="dead letters", why=why)
    wanted = asked(visit.parameters, list(COLUMNS), "name")
    found = sheet([LettersLine(one) for one in groups], wanted, COLUMNS, lambda one: one.group)
    counts = await each(lambda line: letters_kept(visit, line.group), found.rows)
    for line, count in zip(found.rows, counts, strict=True):
        line.stored = count
    return visit.page("dead_letters.html", area="/dead-letters", sheet=found)


def filter_of(given: Mapping[str, str]) -> admin.DeadLetterFilter:
    return admin.DeadLetterFilter(
        reason=given.get("reason", ""),
        topic=given.get("topic", "").strip(),
        message_id=given.get("id", "").strip(),
    )


async def letters_of_group(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    group = visit.request.path_params["name"]
    wanted, cursor = filter_of(visit.parameters), visit.parameters.get("cursor", "")
    everything = await letters(visit, group, admin.DeadLetterFilter(), most=SCAN_MAX)
    shown = await letters(visit, group, wanted, cursor)
    found = reasons(everything.found)
    exact = visit.parameters.get("reason", "")
    return visit.page(
        "letters.html",
        area="/dead-letters",
        group=group,
        reasons=found,
        scanned=len(everything.found),
        scan_cut=bool(everything.cursor),
        letters=shown.found,
        cursor=shown.cursor,
        wanted=wanted,
        is_one_reason=any(one.text == exact for one in found) and bool(exact),
        may_redrive=await visit.may_change(f"Group:{group}", "Update"),
        may_purge=await visit.may_change(f"Group:{group}", "Delete"),
        shell=command("dlq", "list", group, **_options(wanted)),
    )


def _options(wanted: admin.DeadLetterFilter) -> dict[str, object]:
    return {"reason": wanted.reason, "topic": wanted.topic, "id": wanted.message_id}


async def export_letters(visit: Visit) -> Response:
    """A file, with bodies. Raises `CallFailed`, `FormRefused`."""
    group = visit.request.path_params["name"]
    kind = visit.parameters.get("as", "")
    if kind not in FORMATS:
        raise FormRefused("Say which file: ?as=csv or ?as=json")
    pages = letter_pages(
        visit, group, filter_of(visit.parameters), "", whole=True, count=EXPORT_PAGE
    )
    first = await anext(pages)  # what is refused is told before the file begins

    async def lines() -> AsyncIterator[str]:
        count = 0
        page, with_head = first, True
        while True:
            rows = page.letters
            yield as_csv(rows, with_head=with_head) if kind == "csv" else as_json_lines(rows)
            count, with_head = count + len(rows), False
            following = await anext(pages, None)
            if following is None or count >= EXPORT_MAX:
                return
            page = following

    name = "".join(char if char.isalnum() or char in "-_" else "_" for char in group)
    headers = {"content-disposition": f'attachment; filename="dead-letters-{name}.{kind}"'}
    return StreamingResponse(lines(), media_type=FORMATS[kind], headers=headers)
