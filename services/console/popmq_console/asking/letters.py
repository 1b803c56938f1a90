"""Dead letters, page after page."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records.names import DEAD_LETTER_PREFIX
from popmq_console.asking.readings import all_topics
from popmq_console.reading.calls import CallFailed, Failure, answer_or_none
from popmq_console.visit import Visit

SCAN_MAX: Final = 5_000
"""Letters that the table of reasons is made of."""
CALL_COUNT: Final = 1_000
CALLS_MAX: Final = 60
"""Of one page: a call may bring none although more follow."""
SHOWN: Final = 50
SCAN_KEPT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Letters:
    found: list[admin.DeadLetter]
    cursor: str
    """Where to go on; empty: that was all."""


async def letter_pages(
    visit: Visit,
    group: str,
    wanted: admin.DeadLetterFilter,
    cursor: str,
    *,
    whole: bool,
    count: int,
) -> AsyncIterator[admin.ListDeadLettersResponse]:
    """Raises `CallFailed`."""
    while True:
        request = admin.ListDeadLettersRequest(
            group=group, filter=wanted, cursor=cursor, count_max=count, whole=whole
        )
        page = await visit.ask("ListDeadLetters", request, kept_ms=0 if whole else SCAN_KEPT_MS)
        yield page
        cursor = page.cursor
        if not cursor:
            return


async def letters(
    visit: Visit, group: str, wanted: admin.DeadLetterFilter, cursor: str = "", most: int = SHOWN
) -> Letters:
    """At most `most`, without bodies. Raises `CallFailed`."""
    found: list[admin.DeadLetter] = []
    calls = 0
    count = min(CALL_COUNT, most)
    async for page in letter_pages(visit, group, wanted, cursor, whole=False, count=count):
        found += page.letters
        cursor, calls = page.cursor, calls + 1
        if len(found) >= most or calls >= CALLS_MAX:
            break
    if len(found) > most:
        cursor = found[most].cursor
    return Letters(found[:most], cursor)


async def groups_with_letters(visit: Visit) -> list[str] | None:
    """That have a topic of dead letters, by name; None: this visitor may not list topics."""
    topics = await answer_or_none(all_topics(visit, system=True), Failure.DENIED)
    if topics is None:
        return None
    names = [one.name for one in topics if one.name.startswith(DEAD_LETTER_PREFIX)]
    return sorted(name.removeprefix(DEAD_LETTER_PREFIX) for name in names)


async def letters_kept(visit: Visit, group: str) -> int | None:
    """How many a group has, also those that were sent again; None: not known. A group that never
    gave a message up has no topic for them, and 0. Raises `CallFailed`."""
    request = admin.DescribeTopicRequest(name=f"{DEAD_LETTER_PREFIX}{group}")
    try:
        answer = await visit.ask("DescribeTopic", request)
    except CallFailed as failed:
        if failed.failure is Failure.NOT_THERE:
            return 0
        if failed.failure is Failure.DENIED:
            return None
        raise
    return sum(int(queue.max_offset - queue.min_offset) for queue in answer.queues)
