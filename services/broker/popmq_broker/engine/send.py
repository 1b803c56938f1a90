"""Send: messages into the log, answered when they are on disk.

What is to be delivered later goes to where it waits (engine/timers/timer.py). What was stored by an
earlier try of the same send is not stored again (engine/repeated_sends.py).
"""

from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from popmq_broker.core.catalog.tables import PERM_WRITE, TopicConfig
from popmq_broker.core.sends.known_sends import KnownSends, key_of
from popmq_broker.core.store.queue_entry import tags_code_of
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.repeated_sends import RepeatedSends, Split
from popmq_broker.engine.transactions.transaction import Transactions
from popmq_broker.store.store import Appended, Draft
from popmq_common.errors import BadRequest, NoPermission, PopMQError, PropertiesTooLarge
from popmq_common.link.sends import OutgoingRecord, SendCall, SendDone
from popmq_common.records import hosts
from popmq_common.records.properties import PROPERTIES_BYTES_MAX
from popmq_common.records.record import SysFlag
from popmq_internal.v1 import link_pb2 as link

_TRANSACTION_BITS: Final = SysFlag.ROLLBACK.value
_LOG_OFFSET: Final = itemgetter(0)
"""Of an `Appended`."""
_PROPERTIES: Final = 3
"""Of a `Draft`. Those of one that waits begin as they were sent, with the message id."""


class Begun(NamedTuple):
    """What one send has appended."""

    topic: str
    queue_id: int
    appended: list[Appended]
    parked: int = 0
    """How many of them wait, for their time or to be committed; they count when they come."""
    half: bool = False
    """They are half messages, out of sight."""
    repeated: int = 0
    """How many of them an earlier send has stored."""

    @property
    def end_offset(self) -> int:
        if self.repeated:
            return max(place.end_offset for place in self.appended)
        return self.appended[-1].end_offset


class Parking(Protocol):
    """Where messages go that are not to be delivered yet: engine/timers/timer.py."""

    def check_room(self, count: int) -> None: ...

    def park(self, draft: Draft, now_ms: int) -> Draft: ...

    def on_appended(self, drafts: Sequence[Draft], places: Sequence[Appended]) -> None: ...


class Send:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        known: KnownSends,
        timers: Parking,
        transactions: Transactions,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._timers = timers
        self._transactions = transactions
        self._known = known
        self._repeats = RepeatedSends(runtime, catalog_state, known)
        self._next_queue = 0

    def begin(self, requests: Sequence[link.Send | SendCall]) -> list[Begun | PopMQError]:
        """Append several calls at once, each as a whole or not at all; nothing is durable yet.

        In the place of what is refused: `TopicNotFound`, `NoPermission`, `BadRequest`, `DiskFull`.
        """
        found: list[list[Draft] | PopMQError] = []
        everything: list[Draft] = []
        keys: list[int] = []
        refused_keys: list[int] = []
        known, half_count = self._known, 0
        for request in requests:
            topic, kind = request.topic, request.kind  # protobuf makes them anew each time
            try:
                drafts = self._drafts(request, topic, kind, half_count)
            except PopMQError as error:
                found.append(error)
                if known.on:
                    refused_keys += _keys(request)
                continue
            if kind == link.SEND_KIND_HALF:
                half_count += len(drafts)
            found.append(drafts)
            everything += drafts
            if known.on:
                for draft in drafts:
                    keys.append(key_of(topic, draft[_PROPERTIES]))
        if not known.all_new(keys + refused_keys if refused_keys else keys):
            return [self._begin_again(request) for request in requests]
        if not everything:
            return [one for one in found if isinstance(one, PopMQError)]
        return self._append(requests, found, everything, keys)

    def _append(
        self,
        requests: Sequence[link.Send | SendCall],
        found: Sequence[list[Draft] | PopMQError],
        everything: Sequence[Draft],
        keys: Sequence[int],
    ) -> list[Begun | PopMQError]:
        """`found`: for each request; `keys`: of `everything`, or none."""
        runtime = self._runtime
        now_ms = runtime.clock.now_ms()
        try:
            appended = runtime.store.append(everything, now_ms)
        except PopMQError as error:
            if len(requests) == 1:
                return [error]
            return [begun for request in requests for begun in self.begin([request])]
        if keys:
            self._known.add(keys, map(_LOG_OFFSET, appended), now_ms)
        places = iter(appended)
        return [
            one
            if isinstance(one, PopMQError)
            else self._begun(request, one, list(islice(places, len(one))), now_ms)
            for request, one in zip(requests, found, strict=True)
        ]

    def _begin_again(self, request: link.Send | SendCall) -> Begun | PopMQError:
        """A call of which an earlier one may have stored something: that keeps its place."""
        split = self._repeats.split(request)
        if split.known and not split.fresh:
            first = split.known[0]
            half = request.kind == link.SEND_KIND_HALF
            return self._answer_known(Begun(request.topic, first.queue_id, [], half=half), split)
        new = SendCall(request.topic, request.queue_id, split.fresh, request.kind)
        try:
            drafts = self._drafts(new, new.topic, new.kind, 0)
        except PopMQError as error:
            return error
        (begun,) = self._append([new], [drafts], drafts, _keys(new))
        return begun if isinstance(begun, PopMQError) else self._answer_known(begun, split)

    def _answer_known(self, begun: Begun, split: Split) -> Begun:
        places = split.places(begun.appended)
        repeated = len(places) - len(begun.appended)
        return begun._replace(appended=places, repeated=repeated)

    def _begun(
        self,
        request: link.Send | SendCall,
        drafts: list[Draft],
        places: list[Appended],
        now_ms: int,
    ) -> Begun:
        first, kind = drafts[0], request.kind
        if kind == link.SEND_KIND_HALF:
            self._transactions.stored(drafts, places, now_ms)
            return Begun(first.topic, first.queue_id, places, len(places), half=True)
        if kind != link.SEND_KIND_DELAY:
            return Begun(first.topic, first.queue_id, places)
        self._timers.on_appended(drafts, places)
        parked = sum(draft.topic != request.topic for draft in drafts)
        return Begun(request.topic, first.queue_id, places, parked)

    def tell(self, reply: SendDone, begun: Begun) -> None:
        """The answer to a call that is durable now."""
        stats = self._runtime.stats
        stats.sent[begun.topic] += len(begun.appended) - begun.parked - begun.repeated
        if begun.repeated:
            stats.repeated[begun.topic] += begun.repeated
            reply.queue_offsets.extend(place.queue_offset for place in begun.appended)
        if begun.half:
            reply.log_offsets.extend(place.log_offset for place in begun.appended)
        reply.queue_id = begun.queue_id
        reply.queue_offset = begun.appended[0].queue_offset

    def _drafts(
        self, request: link.Send | SendCall, topic_name: str, kind: int, half_count: int
    ) -> list[Draft]:
        topic = self._catalog_state.topic(topic_name)
        if not topic.perm & self._catalog_state.allowed & PERM_WRITE:
            raise NoPermission(topic=topic.name, action="writable")
        queue_id = self._queue(topic, request.queue_id)
        records = request.records
        if not records:
            raise BadRequest(reason="no message to store")
        drafts = [_draft(topic.name, queue_id, record) for record in records]
        if kind == link.SEND_KIND_HALF:
            return self._transactions.half_drafts(topic, queue_id, records, half_count)
        if kind == link.SEND_KIND_DELAY:
            self._timers.check_room(len(drafts))
            now_ms = self._runtime.clock.now_ms()
            return [self._timers.park(draft, now_ms) for draft in drafts]
        return drafts

    def _queue(self, topic: TopicConfig, queue_id: int) -> int:
        if queue_id >= topic.write_queues:
            raise BadRequest(reason=f"topic {topic.name} has no queue {queue_id}")
        if queue_id >= 0:
            return queue_id
        self._next_queue += 1
        return (self._next_queue - 1) % topic.write_queues


def _keys(request: link.Send | SendCall) -> list[int]:
    topic = request.topic
    return [key_of(topic, record.properties) for record in request.records]


def _draft(topic: str, queue_id: int, record: link.OutgoingRecord | OutgoingRecord) -> Draft:
    """Raises `BadRequest` for what no record of the log can hold, or would mean there.

    An attribute of protobuf's is made anew each time it is read, so each is read once.
    """
    properties, sys_flag, born_host = record.properties, record.sys_flag, record.born_host
    if len(born_host) not in hosts.SIZES_BYTES:
        raise BadRequest(reason=f"a born_host of {len(born_host)} bytes")
    if len(properties) > PROPERTIES_BYTES_MAX:
        reason = f"{len(properties)} bytes, the limit is {PROPERTIES_BYTES_MAX}"
        raise PropertiesTooLarge(reason=reason)
    if sys_flag & _TRANSACTION_BITS:  # the kind of a send says what it is
        raise BadRequest(reason=f"a sys_flag of {sys_flag}")
    fields = (
        topic,
        queue_id,
        record.body,
        properties,
        tags_code_of(properties),
        sys_flag,
        record.flag,
        record.born_timestamp_ms,
        born_host,
        0,
        0,
    )
    return tuple.__new__(Draft, fields)  # half the time of Draft(…)
