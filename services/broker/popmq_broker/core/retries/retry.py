"""After a lease that ended without an ack: a retry copy or a dead letter is made.

The copy goes to the group's retry topic, or, after the last attempt, to its dead letters. It
equals the original in body, keys, tag, flags, born time and user properties; it differs in topic,
queue, offsets, store time, and in these properties:

    1ST_POP_TIME             when the message was first handed out. Only copies have it
    __RETRY_REASON           why the last counted attempt failed, if its consumer said so
    __ORIGIN_QUEUE_ID        of a message group's message: the queue it was sent to
    __UNCOUNTED              how often it was given back without being counted, if it was
    DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, DLQ_REASON, DLQ_ATTEMPTS     dead letters only
    __DLQ_CAUSE              dead letters only: `DeadLetterCause`, for the audit

A copy is the first half of a pair: the ack record that ends the old lease follows it directly in
the log. So is a dead letter that is sent again, with the record that marks it
(core/retries/redrive.py), and what a transaction ends with, with its op record
(core/transactions/transaction.py). `is_first_of_pair` tells recovery that a log ending with it was
cut inside a pair.

Source: RocketMQ PopReviveService.reviveRetry. Differs: the dead letter's count of attempts starts
again at 0, so that a group can consume dead letters like any topic; RocketMQ's proxy would
dead-letter them at once. Delay and timer properties are left out of copies. Only the time at which
a delayed message was due (TIMER_DELIVER_MS) stays until the last attempt: consumers are told it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from popmq_broker.core.retries.deliveries import MAX_DELIVERIES_DEFAULT, handed_out, why_dead
from popmq_common.records import properties as names
from popmq_common.records.names import GIVEN_UP_TOPIC, RETRY_PREFIX, dead_letter_topic, retry_topic
from popmq_common.records.record import Record, SysFlag

DLQ_REASON: Final = names.DLQ_REASON
DLQ_ATTEMPTS: Final = "DLQ_ATTEMPTS"
REASON_ATTEMPTS: Final = "attempts used up"
LEFT_OUT: Final = frozenset(
    {
        "POP_CK",
        "DELAY",
        names.DELIVER_MS,
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        names.TIMER_OUT_MS,
        names.TIMER_ROLL_TIMES,
        names.TIMER_OF,
        names.REDRIVE_OF,
    }
)
_LEFT_OUT_OF_RETRIES: Final = LEFT_OUT - {names.DELIVER_MS}
_FIRST_OF_PAIR: Final = tuple(
    f"{name}{names.NAME_END}".encode() for name in (names.FIRST_POP_TIME, names.REDRIVE_OF)
)


class DeadLetterCause(StrEnum):
    """Which rule made a message a dead letter; the reason is what people say of it."""

    ATTEMPTS = "attempts"  # the group's maximum is used up
    DELIVERIES = "deliveries"  # given back uncounted until the ceiling of hand-outs
    REJECTED = "rejected"  # its consumer asked for it
    MISSED = "missed"  # of a FIFO group: unreadable in its turn, and readable later


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    topic: str
    properties: bytes
    reconsume_times: int

    @property
    def dead(self) -> bool:
        return not self.topic.startswith(RETRY_PREFIX)


def retry_or_dead_letter(
    record: Record,
    *,
    group: str,
    topic: str,
    pop_time_ms: int,
    max_attempts: int,
    max_hand_outs: int = MAX_DELIVERIES_DEFAULT,
    counted: bool = True,
    reason: str = "",
) -> Copy:
    """The copy for a lease that ran out (`counted`), or was given back (perhaps not).

    `topic` is the one the group consumes, never the retry topic. `reason`: why it was given back;
    that of the last counted attempt is kept.
    """
    attempts, often = record.reconsume_times + 1, handed_out(record)
    if not counted and often >= max_hand_outs:
        reason = why_dead(often, attempts, reason)
    if attempts >= max_attempts if counted else often >= max_hand_outs:
        return dead_letter(
            record,
            group=group,
            topic=topic,
            pop_time_ms=pop_time_ms,
            cause=DeadLetterCause.ATTEMPTS if counted else DeadLetterCause.DELIVERIES,
            reason=reason,
        )
    kept = _kept(record, pop_time_ms, _LEFT_OUT_OF_RETRIES)
    if counted and reason:
        kept[names.RETRY_REASON] = reason
    if not counted:
        kept[names.UNCOUNTED] = str(often - record.reconsume_times)
    return Copy(
        topic=retry_topic(group, topic),
        properties=names.encode(kept),
        reconsume_times=attempts if counted else record.reconsume_times,
    )


def dead_letter(
    record: Record,
    *,
    group: str,
    topic: str,
    pop_time_ms: int,
    cause: DeadLetterCause,
    attempts: int | None = None,
    uncounted: int = 0,
    reason: str = "",
) -> Copy:
    """`attempts`, `uncounted`: deliveries so far, where the record does not count them. Without a
    `reason` the last counted one is kept, if there was any."""
    kept = _kept(record, pop_time_ms, LEFT_OUT)
    if uncounted:
        kept[names.UNCOUNTED] = str(uncounted)
    last_reason = kept.pop(names.RETRY_REASON, "")
    kept[names.DLQ_ORIGIN_TOPIC] = topic
    kept[names.DLQ_ORIGIN_MESSAGE_ID] = kept.get(names.UNIQ_KEY, "")
    kept[DLQ_REASON] = reason or last_reason or REASON_ATTEMPTS
    kept[DLQ_ATTEMPTS] = str(attempts or record.reconsume_times + 1)
    kept[names.DLQ_CAUSE] = cause.value
    return Copy(topic=dead_letter_topic(group), properties=names.encode(kept), reconsume_times=0)


def is_first_of_pair(record: Record) -> bool:
    if record.sys_flag & SysFlag.ROLLBACK == SysFlag.COMMIT or record.topic == GIVEN_UP_TOPIC:
        return True
    return any(names.value_of(record.properties, head) is not None for head in _FIRST_OF_PAIR)


def _kept(record: Record, pop_time_ms: int, left_out: frozenset[str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in names.decode(record.properties).items()
        if name not in left_out
    }
    if names.SHARDING_KEY in kept and names.FIRST_POP_TIME not in kept:
        kept.setdefault(names.ORIGIN_QUEUE, str(record.queue_id))
    kept.setdefault(names.FIRST_POP_TIME, str(pop_time_ms))
    return kept
