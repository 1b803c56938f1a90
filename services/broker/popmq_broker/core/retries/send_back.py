"""Send-back: what becomes of a message that a consumer which pulls has failed on.

The message stays where it is. A copy goes to the group's `%RETRY%GROUP`, through the delay levels,
or to its dead letters:

    the consumer asks for    failures so far, this one included     the copy goes to
    ---------------------    ----------------------------------     ---------------------------
    −1                       any                                    %DLQ%GROUP
    0, or a level            max_attempts or more, and it counts    %DLQ%GROUP
    0, or a level            uncounted, handed out max_hand_outs    %DLQ%GROUP
    0                        n                                      %RETRY%GROUP, level 2 + n
    0 with a delay           any                                    the first level that is as long
    a level                  any                                    that one; at most the last

So a message of a group with 16 attempts waits for levels 3 to 17: 10 s to 1 h, 4.6 h in all. The
copy equals the original in body, keys, tag, flags, born time and user properties, and says besides:

    RETRY_TOPIC, ORIGIN_MESSAGE_ID     the first message: its topic, its store host and log offset
    WAIT                               false, as RocketMQ has it
    __RETRY_REASON                     why the last counted attempt failed, if the consumer said so
    DLQ_…                              dead letters only, as in core/retries/retry.py
    __RETRIED_IN_PLACE                 dead letters only: by a consumer that reads no retries

Source: RocketMQ AbstractSendMessageProcessor.consumerSendMsgBack. Differs: attempts count
deliveries, RocketMQ's maxReconsumeTimes the ones after the first; a dead letter's count of attempts
starts again at 0; an uncounted failure; a delay instead of a level. The copy of a transaction's
message is none of a transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from popmq_broker.core.retries.deliveries import MAX_DELIVERIES_DEFAULT, handed_out, why_dead
from popmq_broker.core.retries.retry import (
    DLQ_ATTEMPTS,
    DLQ_REASON,
    LEFT_OUT,
    REASON_ATTEMPTS,
    DeadLetterCause,
)
from popmq_broker.core.timers.timer_levels import RETRY_FIRST
from popmq_common.records import properties as names
from popmq_common.records.names import DEAD_LETTER_PREFIX, classic_retry_topic, dead_letter_topic
from popmq_common.records.record import Record

TO_DEAD_LETTERS: Final = -1
AS_ATTEMPTS_SAY: Final = 0
REASON_REJECTED: Final = "rejected by the consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFailure:
    """What a consumer says of a message."""

    level: int = AS_ATTEMPTS_SAY
    delay_ms: int | None = None
    """With `AS_ATTEMPTS_SAY` alone."""
    counted: bool = True
    reason: str = ""
    attempts: int = 0
    """Deliveries so far, of a consumer that retries in place; 0: as the record counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """The copy. `level` is 0 for a dead letter, and where there are no levels: it comes at once."""

    topic: str
    origin: str
    """The topic of the first message."""
    level: int
    properties: bytes
    reconsume_times: int

    @property
    def dead(self) -> bool:
        return self.topic.startswith(DEAD_LETTER_PREFIX)


def decide(
    record: Record,
    failure: ConsumerFailure,
    group: str,
    *,
    max_attempts: int,
    max_hand_outs: int = MAX_DELIVERIES_DEFAULT,
    delays_ms: Sequence[int],
) -> Back:
    """`delays_ms`: of the levels, level 1 first."""
    failures = record.reconsume_times + failure.counted
    kept = _kept(record)
    often = handed_out(record)
    if failure.level >= 0 and not failure.counted and often >= max_hand_outs:
        failure = replace(failure, reason=why_dead(often, failures + 1, failure.reason))
        return _dead(kept, record, failure, group)
    last = failure.counted and failures >= max_attempts
    if failure.level < 0 or last:
        return _dead(kept, record, failure, group)
    if not failure.counted:
        kept[names.UNCOUNTED] = str(often - record.reconsume_times)
    if failure.counted and failure.reason:
        kept[names.RETRY_REASON] = failure.reason
    level = _level(failure, record.reconsume_times, delays_ms)
    if level:
        kept[names.DELAY_LEVEL] = str(level)
    return Back(
        topic=classic_retry_topic(group),
        origin=kept[names.RETRY_TOPIC],
        level=level,
        properties=names.encode(kept),
        reconsume_times=failures,
    )


def _level(failure: ConsumerFailure, failed_before: int, delays_ms: Sequence[int]) -> int:
    level = failure.level or RETRY_FIRST + failed_before
    if failure.level == AS_ATTEMPTS_SAY and failure.delay_ms is not None:
        level = next(
            (at for at, delay_ms in enumerate(delays_ms, 1) if delay_ms >= failure.delay_ms),
            len(delays_ms),
        )
    return min(level, len(delays_ms))


def _kept(record: Record) -> dict[str, str]:
    named = names.decode(record.properties)
    kept = {name: value for name, value in named.items() if name not in LEFT_OUT}
    kept.pop(names.FIRST_POP_TIME, None)  # the copy is no half of a pair
    kept.setdefault(names.RETRY_TOPIC, record.topic)
    kept.setdefault(names.ORIGIN_MESSAGE_ID, _offset_id(record))
    kept[names.WAIT] = "false"
    return kept


def _dead(kept: dict[str, str], record: Record, failure: ConsumerFailure, group: str) -> Back:
    before = kept.pop(names.RETRY_REASON, "")
    default = REASON_REJECTED if failure.level < 0 else before or REASON_ATTEMPTS
    kept[names.DLQ_ORIGIN_TOPIC] = kept[names.RETRY_TOPIC]
    kept[names.DLQ_ORIGIN_MESSAGE_ID] = kept.get(names.UNIQ_KEY) or kept[names.ORIGIN_MESSAGE_ID]
    kept[DLQ_REASON] = failure.reason or default
    kept[DLQ_ATTEMPTS] = str(failure.attempts or record.reconsume_times + 1)
    kept[names.DLQ_CAUSE] = _cause(failure).value
    if failure.attempts:
        kept[names.RETRIED_IN_PLACE] = "true"
    return Back(
        topic=dead_letter_topic(group),
        origin=kept[names.RETRY_TOPIC],
        level=0,
        properties=names.encode(kept),
        reconsume_times=0,
    )


def _cause(failure: ConsumerFailure) -> DeadLetterCause:
    if failure.level < 0:
        return DeadLetterCause.REJECTED
    return DeadLetterCause.ATTEMPTS if failure.counted else DeadLetterCause.DELIVERIES


def _offset_id(record: Record) -> str:
    """RocketMQ's message id of a stored message."""
    return (record.store_host + record.log_offset.to_bytes(8, "big")).hex().upper()
