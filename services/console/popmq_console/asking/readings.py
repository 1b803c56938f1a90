"""What several screens ask for."""

from typing import Final, NamedTuple

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from popmq_console.reading.calls import Failure, answer_or_none
from popmq_console.reading.peeking import QueuePlace
from popmq_console.visit import FIGURES_KEPT_MS, Visit
from popmq_readings.cluster_view import View

LIST_KEPT_MS: Final = 2_000


async def look(visit: Visit) -> View | None:
    """The cluster with rates; None: this visitor may not know."""
    answer = await visit.ask_or_none(
        "ShowCluster", admin.ShowClusterRequest(), kept_ms=FIGURES_KEPT_MS
    )
    if answer is None:
        return None
    return visit.console.history.add(visit.who, visit.asked_ms, answer)


async def inspected(visit: Visit) -> admin.InspectResponse | None:
    """None: this visitor may not know."""
    found: admin.InspectResponse | None = await visit.ask_or_none(
        "Inspect", admin.InspectRequest(), kept_ms=FIGURES_KEPT_MS
    )
    return found


async def all_topics(visit: Visit, *, system: bool = False) -> list[admin.Topic]:
    """Raises `CallFailed`."""
    request = admin.ListTopicsRequest(system=system)
    found = await visit.ask("ListTopics", request, kept_ms=LIST_KEPT_MS)
    return list(found.topics)


async def all_groups(visit: Visit) -> list[admin.Group]:
    """Raises `CallFailed`."""
    found = await visit.ask("ListGroups", admin.ListGroupsRequest(), kept_ms=LIST_KEPT_MS)
    return list(found.groups)


async def topics_or_none(visit: Visit) -> list[admin.Topic] | None:
    """None: this visitor may not list them."""
    return await answer_or_none(all_topics(visit), Failure.DENIED)


class NamesWith(NamedTuple):
    names: list[str]
    """Those with a text; all for an empty one."""
    total: int
    """How many there are in all."""


async def topic_names_with(visit: Visit, text: str) -> NamesWith | None:
    """None: this visitor may not list them."""
    request = admin.ListTopicsRequest(contains=text)
    asking = visit.ask("ListTopics", request, kept_ms=LIST_KEPT_MS)
    found = await answer_or_none(asking, Failure.DENIED)
    return None if found is None else _names_with([one.name for one in found.topics], found.total)


async def group_names_with(visit: Visit, text: str) -> NamesWith | None:
    """None: this visitor may not list them."""
    request = admin.ListGroupsRequest(contains=text)
    asking = visit.ask("ListGroups", request, kept_ms=LIST_KEPT_MS)
    found = await answer_or_none(asking, Failure.DENIED)
    return None if found is None else _names_with([one.name for one in found.groups], found.total)


def _names_with(names: list[str], total: int) -> NamesWith:
    """An older proxy tells all names and no total."""
    return NamesWith(names, max(total, len(names)))


def is_system(topic: str) -> bool:
    """A topic that a look has to ask for by name."""
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


async def message_at(visit: Visit, topic: str, place: QueuePlace) -> admin.StoredMessage | None:
    """None: there is none. `topic`: as stored. Raises `CallFailed`."""
    request = admin.GetMessageRequest(
        topic=topic,
        queue_id=place.queue_id,
        offset=place.offset,
        broker=place.broker,
        system=is_system(topic),
    )
    found = await visit.ask("GetMessage", request)
    return found.messages[0] if found.messages else None
