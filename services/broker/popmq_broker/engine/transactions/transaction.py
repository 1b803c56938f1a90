"""Transactions: half messages stored out of sight, then committed or rolled back.

Settling is one append: a commit's final message and the op record behind it are kept or dropped by
recovery together (core/transactions/transaction.py). Half messages that nobody settles are asked
about; see engine/transactions/transaction_checks.py.
"""

from collections.abc import Sequence

from popmq_broker.core.catalog.tables import TopicConfig
from popmq_broker.core.store.queue_entry import tags_code, tags_code_of
from popmq_broker.core.transactions import transaction
from popmq_broker.core.transactions.transaction import Half, TransactionOutcome
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.queues.drafts import copy_of
from popmq_broker.store.store import Appended, Draft
from popmq_common.errors import (
    AlreadySettled,
    BadRequest,
    Corrupt,
    InvalidTransactionId,
    TooManyTransactions,
)
from popmq_common.link.sends import OutgoingRecord
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_common.records.names import GIVEN_UP_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from popmq_common.records.record import Record, SysFlag
from popmq_common.records.transaction_id import TransactionId, encode
from popmq_internal.v1 import link_pb2 as link

LIST_MAX = 1_000
_TRANSACTION_BITS = SysFlag.ROLLBACK.value
_OP_CODE = tags_code(transaction.OP_TAG)


class Transactions:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, halves: HalfTable, topics: Topics
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._halves = halves
        self._topics = topics

    def half_drafts(
        self,
        topic: TopicConfig,
        queue_id: int,
        records: Sequence[link.OutgoingRecord | OutgoingRecord],
        waiting: int,
    ) -> list[Draft]:
        """What was sent to that queue, as half messages. `waiting`: how many are about to be
        stored besides. Raises `TooManyTransactions`, `PropertiesTooLarge`, `TooManyRequests`."""
        count, limit = len(self._halves), self._runtime.config.half_messages_max
        if count + waiting + len(records) > limit:
            raise TooManyTransactions(count=count, limit=limit)
        for name in (HALF_TOPIC, HALF_OP_TOPIC):
            self._topics.ensure_system_copy_target(name)
        return [_half_draft(topic.name, queue_id, record) for record in records]

    def stored(self, drafts: Sequence[Draft], places: Sequence[Appended], now_ms: int) -> None:
        """The half messages have their places; they are not durable yet."""
        for draft, place in zip(drafts, places, strict=True):
            self._halves.add(self._half(draft, place, now_ms))

    def _half(self, draft: Draft, place: Appended, now_ms: int) -> Half:
        runtime = self._runtime
        return transaction.read_half(
            draft.properties,
            offset=place.queue_offset,
            log_offset=place.log_offset,
            size_bytes=place.end_offset - place.log_offset,
            stored_ms=now_ms,
            op_offset=runtime.store.end_offset(HALF_OP_TOPIC, 0),
            immunity_ms=runtime.config.transaction_immunity_ms,
        )

    async def end(self, request: link.EndTransaction) -> link.Done:
        """Commit or roll back; the same once more is OK. Answered when it is on disk.

        Raises `InvalidTransactionId`, `AlreadySettled`, `TopicNotFound`, `DiskFull`: then nothing
        has changed.
        """
        runtime = self._runtime
        outcome = TransactionOutcome.COMMITTED if request.commit else TransactionOutcome.ROLLED_BACK
        half = self._halves.get(request.half_offset)
        if half is None or half.origin_log_offset != request.log_offset:
            self._check_settled(request, outcome)
            await runtime.store.durable(runtime.store.log_end)
            return link.Done()
        if request.topic not in ("", half.topic):
            raise InvalidTransactionId(reason=f"it is not of topic {request.topic}")
        drafts = [_op_draft(half, outcome, runtime.clock.now_ms())]
        if request.commit:
            drafts.insert(0, self._final_draft(half))
        await self._settle(half, outcome, drafts)
        runtime.stats.sent[half.topic] += request.commit
        return link.Done()

    def _check_settled(self, request: link.EndTransaction, outcome: TransactionOutcome) -> None:
        before = self._halves.outcome_of(request.half_offset, request.log_offset)
        if before is None:
            reason = "the broker knows no such transaction, or it was settled long ago"
            raise InvalidTransactionId(reason=reason)
        if before is not outcome:
            place = self._runtime.config.name, request.half_offset, request.log_offset
            name = encode(TransactionId(*place))
            raise AlreadySettled(transaction_id=name, outcome=before.value)

    def _final_draft(self, half: Half) -> Draft:
        """Raises `TopicNotFound`, `InvalidTransactionId`, `Corrupt`."""
        topic, record = self._catalog_state.topic(half.topic), self._read(half)
        if record is None:
            raise InvalidTransactionId(reason="retention has deleted its half message")
        queue_id = transaction.real_queue(record) % topic.write_queues
        return copy_of(record, topic.name, queue_id, record.properties)._replace(
            sys_flag=record.sys_flag & ~_TRANSACTION_BITS | SysFlag.COMMIT.value,
            prepared_offset=half.log_offset,
        )

    async def give_up(self, half: Half) -> None:
        """Nobody would settle it: to where operators find it. Raises `DiskFull`."""
        runtime = self._runtime
        record = self._readable(half)
        drafts = [_op_draft(half, TransactionOutcome.GIVEN_UP, runtime.clock.now_ms())]
        if record is not None:
            self._topics.ensure_system_copy_target(GIVEN_UP_TOPIC)
            properties = transaction.given_up_properties(record, half)
            drafts.insert(0, copy_of(record, GIVEN_UP_TOPIC, 0, properties))
        message_id = "" if record is None else names.decode(record.properties).get(names.UNIQ_KEY)
        runtime.log.error(
            "transaction.given_up", topic=half.topic, message_id=message_id, checks=half.checks
        )
        await self._settle(half, TransactionOutcome.GIVEN_UP, drafts)

    async def _settle(self, half: Half, outcome: TransactionOutcome, drafts: list[Draft]) -> None:
        """One append, so that recovery keeps or drops all of it."""
        runtime = self._runtime
        places = runtime.store.append(drafts, runtime.clock.now_ms(), system=True)
        self._halves.settle(half, outcome)
        await runtime.store.durable(places[-1].end_offset)
        runtime.stats.settled[half.topic, outcome.value] += 1

    def move(self, half: Half) -> None:
        """Write it again at the log's end, so that retention may delete where it was.

        Raises `DiskFull`.
        """
        runtime, halves = self._runtime, self._halves
        record = self._readable(half)
        if record is None:  # nothing to be moved, and nothing that it would hold
            halves.drop(half)
            return
        now_ms = runtime.clock.now_ms()
        draft = copy_of(record, HALF_TOPIC, 0, transaction.moved_properties(record, half))
        op_offset = runtime.store.end_offset(HALF_OP_TOPIC, 0)
        place, _ = runtime.store.append([draft, _op_draft(half, None, now_ms)], now_ms, system=True)
        to = self._half(draft, place, now_ms)
        to.op_offset = op_offset
        halves.move(half, to=to)

    async def drop_topic(self, topic: str) -> None:
        """The topic was deleted: what was not settled is rolled back."""
        runtime, halves = self._runtime, self._halves
        now_ms = self._runtime.clock.now_ms()
        dropped = halves.of_topic(topic)
        if dropped:
            drafts = [_op_draft(half, TransactionOutcome.ROLLED_BACK, now_ms) for half in dropped]
            places = runtime.store.append(drafts, now_ms, system=True)
            for half in dropped:
                halves.settle(half, TransactionOutcome.ROLLED_BACK)
            await runtime.store.durable(places[-1].end_offset)

    async def unsettled(self, request: link.ListTransactions) -> link.ListTransactionsReply:
        """The oldest ones. Raises `BadRequest`."""
        if not 1 <= request.count_max <= LIST_MAX:
            raise BadRequest(reason=f"{request.count_max} transactions, 1 to {LIST_MAX} allowed")
        reply = link.ListTransactionsReply()
        for half in self._halves:
            if request.topic not in ("", half.topic):
                continue
            reply.count += 1
            if len(reply.transactions) < request.count_max and (record := self._readable(half)):
                reply.transactions.append(_unsettled(half, record))
        return reply

    def _read(self, half: Half) -> Record | None:
        """None: retention has deleted it. Raises `Corrupt`."""
        return self._runtime.store.read(half.log_offset, half.size_bytes)

    def _readable(self, half: Half) -> Record | None:
        """None also when it is damaged: that must not hold up the others."""
        try:
            record = self._read(half)
        except Corrupt as damaged:
            self._runtime.log.error("transaction.damaged", topic=half.topic, reason=str(damaged))
            return None
        if record is None:
            self._runtime.log.error(
                "transaction.lost", topic=half.topic, log_offset=half.log_offset
            )
        return record

    def needed_from(self) -> int | None:
        """The lowest log offset that a half message needs; None: there is none."""
        return self._halves.needed_from()


def _half_draft(topic: str, queue_id: int, record: link.OutgoingRecord | OutgoingRecord) -> Draft:
    properties = transaction.half_properties(record.properties, topic, queue_id)
    return Draft(
        HALF_TOPIC,
        0,
        record.body,
        properties,
        tags_code_of(properties),
        record.sys_flag & ~_TRANSACTION_BITS,
        record.flag,
        record.born_timestamp_ms,
        record.born_host,
    )


def _op_draft(half: Half, outcome: TransactionOutcome | None, now_ms: int) -> Draft:
    return Draft(
        HALF_OP_TOPIC,
        0,
        transaction.op_body(half),
        transaction.op_properties(half, outcome),
        _OP_CODE,
        0,
        0,
        now_ms,
        hosts.LOCAL,
    )


def _unsettled(half: Half, record: Record) -> link.Unsettled:
    named = names.decode(record.properties)
    return link.Unsettled(
        half_offset=half.origin_offset,
        log_offset=half.origin_log_offset,
        topic=half.topic,
        checks=half.checks,
        stored_ms=half.first_stored_ms,
        message_id=named.get(names.UNIQ_KEY, ""),
        keys=named.get(names.KEYS, ""),
        tag=named.get(names.TAGS, ""),
        body_bytes=len(record.body),
    )
