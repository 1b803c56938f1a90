"""/search: one box for message ids, keys, trace ids, topics, groups, clients, receipt handles."""

import asyncio
import re
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import InvalidReceiptHandle
from popmq_common.records import receipt
from popmq_common.records.names import RETRY_PREFIX
from popmq_common.words import counted
from popmq_console.asking.peek import newest_with
from popmq_console.asking.readings import NamesWith, group_names_with, topic_names_with
from popmq_console.reading.calls import EXPLAIN_S, SEARCH_S, Failure, answer_or_none, each
from popmq_console.visit import Visit, named

TEXT_MAX: Final = 2_048
NAMES_SHOWN: Final = 20
KEY_TOPICS_MAX: Final = 40
"""Topics whose index is asked for a key; with more the reader chooses one."""
CLIENT_GROUPS_MAX: Final = 40
PAIRS_MAX: Final = 200_000
"""Of topic and group, which a receipt handle's checksum is compared with: a fifth of a second."""
ID_CHARS_MIN: Final = 16
UNSEEN: Final = (Failure.DENIED, Failure.NOT_THERE, Failure.REFUSED)
"""Failures after which the search goes on: nothing is there, or not for this visitor."""
TRACE_ID: Final = re.compile("[0-9a-f]{32}")
"""As W3C's Trace Context writes it."""
TRACE_TOPICS_MAX: Final = 20
TRACE_NEWEST: Final = 50
"""Messages of each of these topics: a thousand in all."""


@dataclass(slots=True)
class SearchFinds:
    topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    messages: list[admin.StoredMessage] = field(default_factory=list)
    held: list[tuple[str, admin.GroupQueue]] = field(default_factory=list)
    """Groups and the queues that a client with this id holds."""
    notes: list[str] = field(default_factory=list)


async def search(visit: Visit) -> Response:
    """Where there is one answer, that page. Raises `CallFailed`."""
    text = visit.parameters.get("q", "")[:TEXT_MAX].strip()
    if not text:
        return visit.page("search.html", area="", searched="", found=SearchFinds(), where="")
    topics, groups = await _names(visit, text)
    topic_names = topics.names if topics is not None else []
    group_names = groups.names if groups is not None else []
    exact = await _exact(visit, text, topic_names, group_names, knows_all=topics is not None)
    if exact:
        return visit.go_to(visit.url(exact))
    if (handle := _receipt(text)) is not None:
        return await _by_handle(visit, text, handle, topic_names, group_names)
    if await _is_message(visit, text):
        return visit.go("/message", id=text)
    found = SearchFinds()
    lower = text.lower()
    found.topics = list(islice((n for n in topic_names if lower in n.lower()), NAMES_SHOWN))
    found.groups = list(islice((n for n in group_names if lower in n.lower()), NAMES_SHOWN))
    if topics is not None and topics.total > KEY_TOPICS_MAX:
        found.notes.append(
            f"There are {topics.total:,} topics: to find a key, look in one of them "
            "(Messages, key or id)."
        )
    else:
        await _by_key(visit, text, topic_names, found)
    if TRACE_ID.fullmatch(text) and not found.messages:
        await _by_trace(visit, text, topic_names, found)
    await _by_client(visit, text, group_names, found)
    return visit.page("search.html", area="", searched=text, found=found, where="")


async def _names(visit: Visit, text: str) -> tuple[NamesWith | None, NamesWith | None]:
    """Of topics and of groups: all of them, where few are, or where the text may be looked for in
    each; else those with the text. None: this visitor may not list them."""
    is_name = len(text) < ID_CHARS_MIN and "@" not in text and " " not in text
    wanted = text if is_name else ""
    topics, groups = await asyncio.gather(
        topic_names_with(visit, wanted), group_names_with(visit, wanted)
    )
    if topics is not None and len(topics.names) < topics.total <= KEY_TOPICS_MAX:
        topics = await topic_names_with(visit, "")
    return topics, groups


async def _exact(
    visit: Visit, text: str, topics: list[str], groups: list[str], *, knows_all: bool
) -> str:
    """The path of a topic or group of this name; empty: none. If both have it, both are shown."""
    among = visit.parameters.get("in", "")
    if not knows_all and among != "groups":
        request = admin.DescribeTopicRequest(name=text, settings_only=True)
        if await _answers(visit, "DescribeTopic", request):
            return named("topics", text)
    if not knows_all:
        request_group = admin.DescribeGroupRequest(name=text, settings_only=True)
        if await _answers(visit, "DescribeGroup", request_group):
            return named("dead-letters" if among == "dead letters" else "groups", text)
    if (text in topics) == (text in groups):
        return ""
    return named("topics", text) if text in topics else named("groups", text)


async def _answers(visit: Visit, rpc: str, request: object) -> bool:
    return await answer_or_none(visit.ask(rpc, request), *UNSEEN) is not None


async def _is_message(visit: Visit, text: str) -> bool:
    """A message id that some broker knows."""
    if len(text) < ID_CHARS_MIN or not text.isascii() or " " in text:
        return False
    asking = visit.ask("Explain", admin.ExplainRequest(message_id=text), timeout_s=EXPLAIN_S)
    found = await answer_or_none(asking, *UNSEEN)
    return found is not None and bool(found.found)


async def _by_key(visit: Visit, text: str, topics: list[str], found: SearchFinds) -> None:
    async def one(topic: str) -> list[admin.StoredMessage]:
        request = admin.FindMessagesRequest(topic=topic, key=text, count_max=NAMES_SHOWN)
        asking = visit.ask("FindMessages", request, timeout_s=SEARCH_S)
        answer = await answer_or_none(asking, *UNSEEN)
        return [] if answer is None else list(answer.messages)

    messages = [message for part in await each(one, topics) for message in part]
    messages.sort(key=lambda message: -message.stored_ms)
    found.messages = messages[:NAMES_SHOWN]


async def _by_trace(visit: Visit, text: str, topics: list[str], found: SearchFinds) -> None:
    """No index has trace ids, so the newest messages are looked through."""
    looked_at = topics[:TRACE_TOPICS_MAX]

    async def one(topic: str) -> list[admin.StoredMessage]:
        asking = newest_with(visit, topic, text, TRACE_NEWEST)
        return await answer_or_none(asking, *UNSEEN) or []

    messages = [message for part in await each(one, looked_at) for message in part]
    messages.sort(key=lambda message: -message.stored_ms)
    found.messages = messages[:NAMES_SHOWN]
    found.notes.append(
        f"No index has trace ids: the newest {TRACE_NEWEST} messages of "
        f"{counted(len(looked_at), 'topic')} of {len(topics):,} were looked through. "
        "To look further, open a topic and search its messages for the text."
    )


async def _by_client(visit: Visit, text: str, groups: list[str], found: SearchFinds) -> None:
    """Consumers that pull hold queues by name; leases of others are told by a message's page."""
    if "@" not in text and len(text) < ID_CHARS_MIN:
        return
    if len(groups) > CLIENT_GROUPS_MAX:
        found.notes.append(f"Client ids were looked for in {CLIENT_GROUPS_MAX} groups alone.")

    async def one(group: str) -> list[tuple[str, admin.GroupQueue]]:
        answer = await visit.ask_or_none("DescribeGroup", admin.DescribeGroupRequest(name=group))
        queues = answer.queues if answer is not None else []
        return [(group, queue) for queue in queues if text in queue.locked_by]

    parts = await each(one, groups[:CLIENT_GROUPS_MAX])
    found.held = [pair for part in parts for pair in part][:NAMES_SHOWN]


def _receipt(text: str) -> receipt.Receipt | None:
    """None: it is no receipt handle."""
    if text.count(" ") not in (receipt.FIELD_COUNT - 1, receipt.FIELD_COUNT):
        return None
    try:
        return receipt.decode(text)
    except InvalidReceiptHandle:
        return None


async def _by_handle(
    visit: Visit, text: str, handle: receipt.Receipt, topics: list[str], groups: list[str]
) -> Response:
    """Its checksum tells which topic and group it was given for."""
    for group, topic in islice(product(groups, topics), PAIRS_MAX):
        try:
            receipt.broker_of(text, group, topic)
        except InvalidReceiptHandle:
            continue
        stored = f"{RETRY_PREFIX}{group}_{topic}" if handle.retry_mark else topic
        at = f"{handle.broker}:{handle.queue_id}:{handle.queue_offset}"
        return visit.go("/message", topic=stored, at=at, group=group)
    where = (
        f"A receipt handle: broker {handle.broker}, queue {handle.queue_id}, offset "
        f"{handle.queue_offset}, of a topic and group that you may not see, or that are gone."
    )
    return visit.page("search.html", area="", searched=text, found=SearchFinds(), where=where)
