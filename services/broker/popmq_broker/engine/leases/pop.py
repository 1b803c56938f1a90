"""Pop: hand out ready messages of a topic and hide them for a while.

One pop looks at the group's retry topic and at every queue of the topic, starting at another
queue each time. Every fifth pop of a group looks at the retry topic first; the others look there
last, so neither a busy topic nor a full retry topic starves the other.

Per queue that gave something one checkpoint goes to the revive topic; the answer waits until all
are on disk (engine/leases/poll.py). With pop_buffer=memory it does not: see
core/leases/pop_buffer.py.

Source: RocketMQ PopMessageProcessor.
"""

from dataclasses import dataclass, field

from popmq_broker.core.filters.filter import Filter, parse_tags
from popmq_broker.core.filters.sql_filter import parse_sql
from popmq_broker.core.groups.offsets import Passing, QueueKey
from popmq_broker.core.groups.passing import EVERYTHING, PassRecord
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.leases.fifo_queue import FifoQueue
from popmq_broker.core.leases.grant import NOT_STORED, Grant, Lease, leases_of
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import Storing, append_behind, before_pop
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.queue_scan import QueueScan, scan_again, scan_fifo, scan_queue
from popmq_broker.engine.leases.revive import Revive
from popmq_broker.store.store import Appended, Draft
from popmq_common.errors import TooManyInFlight
from popmq_common.records import receipt
from popmq_common.records.names import retry_topic
from popmq_common.records.receipt import Receipt
from popmq_common.units import QueueOffset
from popmq_internal.v1 import link_pb2 as link

RETRY_FIRST_EVERY = 5
REPLY_BYTES_MAX = 16 << 20  # stored bytes of one pop, so that its reply fits into a frame
UNDURABLE_BYTES_MAX = 32 << 20  # of all that wait for the disk; then each gets a message


@dataclass(slots=True)
class PoppedMessages:
    scans: list[QueueScan]
    pop_time_ms: int
    revive_queue: int
    end_offset: int | None  # of the journal's records; None: nothing was journaled
    more: bool  # ready messages were left behind
    damaged: bool = False  # some cannot be read: look again when `Damage.saved` returns

    @property
    def count(self) -> int:
        return sum(len(scan.offsets) for scan in self.scans)

    @property
    def size_bytes(self) -> int:
        return sum(scan.bytes_taken for scan in self.scans)


@dataclass(slots=True)
class _Scanned:
    """What the queues of a pop give."""

    scans: list[QueueScan] = field(default_factory=list)
    more: bool = False
    """Ready messages are in queues that were not scanned, because there was no room for them."""
    capped: int = 0
    """Messages in flight in a queue where that many are allowed."""


class Pop:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        revive: Revive,
        storing: Storing,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._revive = revive
        self._storing = storing
        self._turn = 0
        self.undurable_bytes = 0
        """Read for pops that wait for the disk."""

    def take(self, request: link.Pop, wanted: Filter) -> PoppedMessages:
        """Decide, append, apply; nothing is awaited in here."""
        runtime = self._runtime
        now_ms = runtime.clock.now_ms()
        revive_queue = self._turn % runtime.config.revive_queues
        self._turn += 1
        found = self._scan_queues(request, wanted)
        scans = found.scans
        if found.capped and not any(scan.offsets for scan in scans):
            raise TooManyInFlight(
                group=request.group,
                topic=request.topic,
                count=found.capped,
                limit=runtime.config.in_flight_max,
            )
        # Pops before a queue's fence are void; one of the same moment must not be taken for such.
        now_ms = max([now_ms, *(scan.queue.fenced_ms for scan in scans)])
        way = EVERYTHING
        if wanted is not None:
            way = Passing(int(request.filter_kind), request.filter_expression)
        appended = self._journal(scans, request, way, now_ms, revive_queue)
        self._apply(scans, appended, request, now_ms, revive_queue)
        end_offset = appended[-1].end_offset if appended else None
        more = found.more or any(scan.more for scan in scans)
        damaged = any(scan.damaged for scan in scans)
        return PoppedMessages(scans, now_ms, revive_queue, end_offset, more, damaged)

    def give_back(self, taken: PoppedMessages) -> None:
        """Nobody will get these: visible again at once."""
        for scan in taken.scans:
            self._revive.give_back(scan.queue, scan.offsets, taken.pop_time_ms)

    def _room_bytes(self, request: link.Pop) -> int:
        """Of what one pop gives; the first message always fits."""
        asked = request.bytes_max or REPLY_BYTES_MAX
        return max(1, min(asked, REPLY_BYTES_MAX, UNDURABLE_BYTES_MAX - self.undurable_bytes))

    def _scan_queues(self, request: link.Pop, wanted: Filter) -> _Scanned:
        runtime, catalog_state, lease_state = self._runtime, self._catalog_state, self._lease_state
        answered = self._answered(request)
        if answered or request.held_only:
            return _Scanned(answered)
        found = _Scanned()
        missing = request.batch_size
        room_bytes = self._room_bytes(request)
        single = request.one_per_message_group
        for key in self._keys(request):
            queue = lease_state.group_queue(key)
            is_new = queue is None
            if queue is None:
                queue = lease_state.new_group_queue(key, catalog_state.first_offset(key))
            room = runtime.config.in_flight_max - len(queue.leases)
            if room <= 0:
                found.capped = max(found.capped, len(queue.leases))
                continue
            end = runtime.store.max_offset(key.topic, key.queue_id)
            if not is_new and queue.is_done_to(end):
                continue
            if missing <= 0 and not is_new and queue.fifo_queue is None:
                found.more = found.more or queue.position < end
                continue
            scan = self._look(queue, is_new, min(missing, room), room_bytes, wanted, single=single)
            scan.marks_start = is_new and not scan.offsets and catalog_state.begins_last(key)
            missing -= len(scan.offsets)
            room_bytes -= scan.bytes_taken
            if room_bytes <= 0:
                missing = 0
            found.scans.append(scan)
        return found

    def _look(
        self,
        queue: GroupQueueState,
        is_new: bool,
        want: int,
        room_bytes: int,
        wanted: Filter,
        *,
        single: bool,
    ) -> QueueScan:
        if queue.fifo_queue is None:
            return scan_queue(
                self._runtime, self._catalog_state, queue, is_new, want, room_bytes, wanted
            )
        return scan_fifo(
            self._runtime,
            self._catalog_state,
            queue,
            queue.fifo_queue,
            is_new=is_new,
            want=want,
            room_bytes=room_bytes,
            wanted=wanted,
            single=single,
        )

    def _answered(self, request: link.Pop) -> list[QueueScan]:
        """What this very receive got before, when its answer was lost: only orders remember."""
        if not request.attempt_id or not self._catalog_state.group(request.group).fifo:
            return []
        scans = []
        for key in self._keys(request):
            queue = self._lease_state.group_queue(key)
            if queue is not None and queue.fifo_queue is not None:
                held = queue.fifo_queue.held_by(request.attempt_id)
                if held:
                    scans.append(scan_again(self._runtime, queue, queue.fifo_queue, held))
        return scans

    def _keys(self, request: link.Pop) -> list[QueueKey]:
        topic = self._catalog_state.topic(request.topic)
        first = self._lease_state.group_queue(QueueKey(request.group, topic.name, 0))
        turn = 0
        if first is not None:
            turn = first.pops = first.pops + 1
        count = topic.read_queues
        keys = [QueueKey(request.group, topic.name, (turn + i) % count) for i in range(count)]
        retry_name = retry_topic(request.group, request.topic)
        if (
            retry_name in self._catalog_state.topics
            and not self._catalog_state.group(request.group).fifo
        ):
            retry = QueueKey(request.group, retry_name, 0)
            keys.insert(0 if turn % RETRY_FIRST_EVERY == 0 else count, retry)
        return keys

    def _journal(
        self,
        scans: list[QueueScan],
        request: link.Pop,
        way: Passing,
        now_ms: int,
        revive_queue: int,
    ) -> list[Appended]:
        """One checkpoint of each queue that gave something and is not buffered; before them the
        ways in which queues are gone over, where they changed, which are not returned."""
        drafts: list[Draft] = []
        checkpoints: list[Draft] = []
        ahead = []
        buffering = 0
        for scan in scans:
            count = len(scan.offsets)
            # What a client's signs of life renew is journaled: it may be held for long.
            may_wait = count > 0 and not request.auto_renew
            if may_wait and self._storing.takes(
                scan.queue, buffering + count, request.invisible_ms
            ):
                scan.buffered = True
                buffering += count
            elif count or scan.marks_start:
                ahead += before_pop(scan.queue)
                checkpoints.append(self._draft(scan, request, now_ms, revive_queue))
            drafts += self._told(scan, way, now_ms)
        told_count = len(drafts)
        drafts += checkpoints
        if not drafts:
            return []
        appended = append_behind(self._runtime, self._lease_state, ahead, drafts, now_ms)
        return appended[told_count:]

    def _told(self, scan: QueueScan, way: Passing, now_ms: int) -> list[Draft]:
        """The record of the way in which it goes over messages, if it is another one."""
        queue = scan.queue
        if (queue.told == way and not queue.told_again) or scan.next_offset <= queue.position:
            return []
        scan.tells = way
        from_offset = scan.start if queue.fifo_queue is None else queue.position
        record = PassRecord(queue.key, from_offset, way)
        return [journal.passes(self._runtime, record, now_ms)]

    def _draft(
        self,
        scan: QueueScan,
        request: link.Pop,
        now_ms: int,
        revive_queue: int,
    ) -> Draft:
        record = ck.Checkpoint(
            topic=scan.queue.key.topic,
            group=scan.queue.key.group,
            queue_id=scan.queue.key.queue_id,
            start_offset=QueueOffset(scan.start),
            offsets=tuple(scan.offsets),
            pop_time_ms=now_ms,
            invisible_ms=request.invisible_ms,
            broker=self._runtime.config.name,
            generation=scan.generation,
            attempts=tuple(scan.attempts),
            handed_out=tuple(scan.handed_out),
            attempt_id=request.attempt_id if scan.attempts else "",
            reasons=tuple(scan.reasons),
            client_id=request.client_id if request.auto_renew else "",
            renew_ms=request.invisible_ms if request.auto_renew else 0,
        )
        return journal.checkpoint(self._runtime, record, revive_queue, now_ms)

    def _apply(
        self,
        scans: list[QueueScan],
        appended: list[Appended],
        request: link.Pop,
        now_ms: int,
        revive_queue: int,
    ) -> None:
        lease_state = self._lease_state
        places = iter(appended)
        for scan in scans:
            queue = scan.queue
            if scan.is_new:
                lease_state.table.queues[queue.key] = queue
            queue.position = scan.next_offset
            if scan.tells is not None:
                queue.told, queue.told_again = scan.tells, False
            lease_state.close(queue.pass_settled())
            if scan.marks_start:
                next(places)
            if not scan.offsets:
                continue
            revive_offset = NOT_STORED if scan.buffered else next(places).queue_offset
            grant = Grant(
                start_offset=scan.start,
                pop_time_ms=now_ms,
                invisible_ms=request.invisible_ms,
                revive_queue=revive_queue,
                revive_offset=revive_offset,
                generation=scan.generation,
                client_id=request.client_id if request.auto_renew else "",
                renew_ms=request.invisible_ms if request.auto_renew else 0,
            )
            if scan.buffered:
                self._storing.add(queue, grant, tuple(scan.offsets), scan.start)
            else:
                lease_state.progress.opened(revive_queue, revive_offset, len(scan.offsets))
            leases = leases_of(grant, scan.offsets, scan.entries)
            lease_state.table.add(queue, leases)
            if queue.fifo_queue is not None:
                self._hold(queue.fifo_queue, scan, leases, request.attempt_id)
                scan.more = scan.more or queue.fifo_queue.has_ready
        self._revive.look_again()

    def _hold(
        self, fifo_queue: FifoQueue, scan: QueueScan, leases: dict[int, Lease], attempt_id: str
    ) -> None:
        for offset, lease in leases.items():
            entry = fifo_queue.entries[offset]
            older = fifo_queue.hold(entry, lease, attempt_id=attempt_id, counted=not scan.again)
            if older is not None:
                self._lease_state.progress.closed(older.grant)


def wanted_by(kind: "link.FilterKind.ValueType", expression: str) -> Filter:
    """Raises `IllegalFilter`."""
    if kind == link.FILTER_KIND_SQL:
        return parse_sql(expression)
    return parse_tags(expression) if kind else None


def reply_of(taken: PoppedMessages, request: link.Pop, broker: str) -> link.PopReply:
    reply = link.PopReply()
    for scan in taken.scans:
        if not scan.offsets:
            continue
        first = Receipt(
            start_offset=scan.start,
            pop_time_ms=taken.pop_time_ms,
            invisible_ms=request.invisible_ms,
            revive_queue=taken.revive_queue,
            retry_mark=0 if scan.queue.key.topic == request.topic else 1,
            broker=broker,
            queue_id=scan.queue.key.queue_id,
            queue_offset=0,
            log_offset=0,
            generation=scan.generation,
        )
        give = _give_run if request.by_runs else _give_messages
        give(reply, scan, first, request)
    return reply


def _give_run(reply: link.PopReply, scan: QueueScan, first: Receipt, request: link.Pop) -> None:
    place = first._replace(queue_offset=scan.offsets[0], log_offset=scan.entries[0].log_offset)
    reply.runs.add(
        handle=receipt.encode(place, request.group, request.topic),
        records=scan.records,
        delivery_attempts=scan.attempts,
        queue_offsets=scan.offsets,
    )


def _give_messages(
    reply: link.PopReply, scan: QueueScan, first: Receipt, request: link.Pop
) -> None:
    log_offsets = [entry.log_offset for entry in scan.entries]
    places = list(zip(scan.offsets, log_offsets, strict=True))
    handles = receipt.encode_all(first, places, request.group, request.topic)
    for handle, record in zip(handles, scan.records, strict=True):
        reply.messages.add(handle=handle, record=record)
    given = reply.messages[-len(handles) :]
    for message, attempt in zip(given, scan.attempts, strict=False):  # none: not in order
        message.delivery_attempt = attempt
