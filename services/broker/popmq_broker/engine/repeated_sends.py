"""Which messages of a call an earlier call has stored: its answer was lost, and it was sent again.

The table says where to look (core/sends/known_sends.py), the record there whether it is the same
message (core/sends/sent_message.py). What cannot be read, or is of a topic that was deleted, is
stored again: nobody will receive the first one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from popmq_broker.core.sends.known_sends import KnownSends, id_of, key_of
from popmq_broker.core.sends.sent_message import is_repeat
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.store import Appended
from popmq_common.errors import Corrupt
from popmq_common.link.sends import OutgoingRecord, SendCall
from popmq_internal.v1 import link_pb2 as link

SentRecord = link.OutgoingRecord | OutgoingRecord


@dataclass(frozen=True, slots=True)
class FirstPlace:
    place: Appended
    queue_id: int


@dataclass(slots=True)
class Split:
    """A call's messages: those that are to be stored, and those that are stored."""

    fresh: list[OutgoingRecord] = field(default_factory=list)
    known: list[FirstPlace] = field(default_factory=list)
    order: list[tuple[bool, int]] = field(default_factory=list)
    """Of each message of the call: whether it is fresh, and which of these or of those."""

    def places(self, appended: Sequence[Appended]) -> list[Appended]:
        """Of all messages of the call, in order. `appended`: of the fresh ones."""
        return [appended[i] if is_fresh else self.known[i].place for is_fresh, i in self.order]


class RepeatedSends:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, known: KnownSends) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._known = known

    def split(self, request: link.Send | SendCall) -> Split:
        """What is twice in the call is fresh once."""
        split = Split()
        seen: dict[tuple[bytes, bytes], int] = {}
        for record in request.records:
            place = self._first_place(request, record)
            if place is not None:
                split.order.append((False, len(split.known)))
                split.known.append(place)
                continue
            message_id = id_of(record.properties)
            at = seen.get((message_id, record.body)) if message_id else None
            if at is None:
                at = seen[message_id, record.body] = len(split.fresh)
                split.fresh.append(_plain(record))
            split.order.append((True, at))
        return split

    def _first_place(self, request: link.Send | SendCall, record: SentRecord) -> FirstPlace | None:
        log_offset = self._known.find(key_of(request.topic, record.properties))
        if log_offset is None or self._catalog_state.is_of_deleted(request.topic, log_offset):
            return None
        try:
            found = self._runtime.store.read_at(log_offset)
        except Corrupt:
            return None
        if found is None:
            return None
        stored, size_bytes = found
        if not is_repeat(
            stored,
            topic=request.topic,
            properties=record.properties,
            body=record.body,
            sys_flag=record.sys_flag,
            half=request.kind == link.SEND_KIND_HALF,
            may_wait=request.kind == link.SEND_KIND_DELAY,
        ):
            return None
        place = Appended(log_offset, log_offset + size_bytes, stored.queue_offset)
        return FirstPlace(place, stored.queue_id)


def _plain(record: SentRecord) -> OutgoingRecord:
    if isinstance(record, OutgoingRecord):
        return record
    return OutgoingRecord(
        record.body,
        record.properties,
        record.sys_flag,
        record.flag,
        record.born_timestamp_ms,
        record.born_host,
    )
