"""Copies, dead letters, timers, transactions, settings as rows, by the topic a record lies in."""

import json
from collections.abc import Mapping

from popmq_broker.core.catalog import catalog
from popmq_broker.core.catalog.tables import GroupConfig, TopicConfig
from popmq_broker.core.retries import redrive
from popmq_broker.core.retries.retry import DLQ_ATTEMPTS
from popmq_broker.core.retries.retry_policy import to_json
from popmq_broker.core.timers import timer
from popmq_broker.core.transactions import transaction
from popmq_common.errors import Corrupt
from popmq_common.records import count_report
from popmq_common.records import properties as names
from popmq_common.records.names import (
    CATALOG_TOPIC,
    COUNTS_TOPIC,
    DEAD_LETTER_PREFIX,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    LEVELS_TOPIC,
    RETRY_PREFIX,
    TIMER_TOPIC,
)
from popmq_common.records.record import Record

Row = tuple[object, ...]
Rows = list[tuple[str, Row]]
_INT_DIGITS_MAX = 9
_TOPICS = frozenset(
    {TIMER_TOPIC, LEVELS_TOPIC, HALF_TOPIC, HALF_OP_TOPIC, CATALOG_TOPIC, COUNTS_TOPIC}
)
_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX, redrive.MARKS_PREFIX)


def says_more(record: Record, properties: Mapping[str, str]) -> bool:
    """There is more to tell of it than `commitlog_index` does; of most messages there is not."""
    topic = record.topic
    return topic in _TOPICS or names.TIMER_OF in properties or topic.startswith(_PREFIXES)


def of(record: Record, properties: Mapping[str, str], previous_log_offset: int | None) -> Rows:
    """`previous_log_offset`: the record right before it, with which it may be a pair. Raises
    `Corrupt`."""
    topic = record.topic
    if topic == HALF_OP_TOPIC:
        return _half_ends(record, previous_log_offset)
    if topic == COUNTS_TOPIC:
        return _counts(record)
    if topic == CATALOG_TOPIC:
        return _settings(record, properties)
    if topic.startswith(redrive.MARKS_PREFIX):
        return [_redrive(record, previous_log_offset)]
    rows = _timer_ends(record, properties)
    if topic == HALF_TOPIC:
        rows.append(_half(record, properties))
    elif topic in (TIMER_TOPIC, LEVELS_TOPIC):
        rows.append(_waiting(record, properties))
    elif topic.startswith(RETRY_PREFIX):
        rows.append(_retry(record, properties))
    elif topic.startswith(DEAD_LETTER_PREFIX):
        rows.append(_dead_letter(record, properties))
    return rows


def _place(record: Record, properties: Mapping[str, str]) -> Row:
    return (
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.log_offset,
        record.store_timestamp_ms,
        properties.get(names.UNIQ_KEY),
    )


def _retry(record: Record, properties: Mapping[str, str]) -> tuple[str, Row]:
    more = (
        record.reconsume_times,
        _long(properties.get(names.FIRST_POP_TIME)),
        properties.get(names.RETRY_REASON),
        _int(properties.get(names.ORIGIN_QUEUE)),
    )
    return "retry_index", (*_place(record, properties), *more)


def _dead_letter(record: Record, properties: Mapping[str, str]) -> tuple[str, Row]:
    more = (
        record.topic.removeprefix(DEAD_LETTER_PREFIX),
        properties.get(names.DLQ_ORIGIN_TOPIC),
        properties.get(names.DLQ_ORIGIN_MESSAGE_ID),
        properties.get(names.DLQ_REASON),
        _int(properties.get(DLQ_ATTEMPTS)),
    )
    return "dlq_index", (*_place(record, properties), *more)


def _settings(record: Record, properties: Mapping[str, str]) -> Rows:
    kind = properties.get(names.TAGS)
    if kind not in (catalog.CatalogKind.GROUP, catalog.CatalogKind.TOPIC):
        return []
    change = catalog.decode(record.body, where=f"{record.topic} at {record.log_offset}")
    place = (record.log_offset, record.store_timestamp_ms)
    there = change.value
    owner = there.owner if isinstance(there, TopicConfig | GroupConfig) else ""
    owners: Rows = [("owners", (kind, change.name, owner or None, *place))]
    if kind == catalog.CatalogKind.TOPIC:
        return owners
    return [*owners, ("group_settings", _group(change, place))]


def _group(change: catalog.Change, place: Row) -> Row:
    there = change.value
    if not isinstance(there, GroupConfig):
        return (change.name, True, *(None,) * 5, *place)
    told = (
        there.fifo,
        there.max_attempts,
        there.max_hand_outs,
        there.consume_from.value,
        json.dumps(to_json(there.retry_policy), separators=(",", ":")),
    )
    return (change.name, False, *told, *place)


def _counts(record: Record) -> Rows:
    report = count_report.decode(record.body, where=f"{record.topic} at {record.log_offset}")
    head = (report.client_id, report.id_prefix, report.sequence, report.from_ms, report.until_ms)
    tail = (report.is_last, report.uncounted, record.log_offset, record.store_timestamp_ms)
    rows: Rows = [("client_reports", (*head, *tail))]
    for row in report.rows:
        what = (row.counted_as.value, row.topic, row.group or None, row.minute_ms)
        many = (row.message_count, row.digest, record.log_offset)
        rows.append(("client_counts", (report.client_id, report.sequence, *what, *many)))
    return rows


def _redrive(record: Record, previous_log_offset: int | None) -> tuple[str, Row]:
    offset = redrive.decode_mark(record.body, where=f"{record.topic} at {record.log_offset}")
    group = record.topic.removeprefix(redrive.MARKS_PREFIX)
    place = (record.log_offset, record.store_timestamp_ms, previous_log_offset)
    return "redrives", (group, offset, *place)


def _waiting(record: Record, properties: Mapping[str, str]) -> tuple[str, Row]:
    kind, level = "parked", None
    if record.topic == LEVELS_TOPIC:
        kind, level = "level", record.queue_id + 1
    elif names.TIMER_DEL_KEY in properties:
        kind = "recall"
    more = (
        kind,
        _long(properties.get(names.TIMER_OUT_MS)),
        level,
        properties.get(names.REAL_TOPIC),
        _int(properties.get(names.REAL_QUEUE_ID)),
        _int(properties.get(names.TIMER_ROLL_TIMES)) or 0,
    )
    return "timer_index", (*_place(record, properties), *more)


def _timer_ends(record: Record, properties: Mapping[str, str]) -> Rows:
    of = properties.get(names.TIMER_OF)
    if of is None:
        return []
    kind = "delivered"
    if record.topic == TIMER_TOPIC:
        kind = "recalled" if names.TIMER_DEL_KEY in properties else "rolled"
    place = (record.topic, record.queue_id, record.queue_offset, record.log_offset)
    of_level = timer.level_end(of)
    if of_level is not None:
        return [("timer_ends", (kind, *of_level, *place))]
    return [("timer_ends", (kind, None, offset, *place)) for offset in timer.ends(of)]


def _half(record: Record, properties: Mapping[str, str]) -> tuple[str, Row]:
    try:
        half = transaction.half_seen(record)
    except ValueError as wrong:
        raise Corrupt(path=HALF_TOPIC, offset=record.queue_offset, reason=str(wrong)) from wrong
    more = (
        half.topic or None,
        _int(properties.get(names.REAL_QUEUE_ID)),
        half.origin_offset,
        half.origin_log_offset if half.origin_log_offset >= 0 else None,
        half.checks,
    )
    return "half_messages", (*_place(record, properties), *more)


def _half_ends(record: Record, previous_log_offset: int | None) -> Rows:
    settled = transaction.read_op(record, where=f"{record.topic} at {record.log_offset}")
    outcome = "moved" if settled.moved else "unknown"
    if settled.outcome is not None:
        outcome = settled.outcome.value
    origin = (
        settled.origin_offset if settled.origin_offset >= 0 else None,
        settled.origin_log_offset if settled.origin_log_offset >= 0 else None,
    )
    place = (record.log_offset, record.store_timestamp_ms, previous_log_offset)
    return [("half_ends", (half, outcome, *origin, *place)) for half in settled.offsets]


def _long(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def _int(text: str | None) -> int | None:
    found = _long(text)
    return found if found is not None and len(text or "") <= _INT_DIGITS_MAX else None
