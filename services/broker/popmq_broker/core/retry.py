"""What becomes of a message whose lease ended without an ack: the copy that is written.

The copy goes to the group's retry topic, or, after the last attempt, to its dead letters. It
equals the original in body, keys, tag, flags, born time and user properties; it differs in topic,
queue, offsets, store time, and in these properties:

    1ST_POP_TIME             when the message was first handed out. Only copies have it
    DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, DLQ_REASON, DLQ_ATTEMPTS     dead letters only

A copy is the first half of a pair: the ack record that ends the old lease follows it directly in
the log. `is_first_of_pair` tells recovery that a log ending with it was cut inside a pair.

Source: RocketMQ PopReviveService.reviveRetry. Differs: the dead letter's count of attempts starts
again at 0, so that a group can consume dead letters like any topic; RocketMQ's proxy would
dead-letter them at once. Delay and timer properties are left out of copies.
"""

from dataclasses import dataclass
from typing import Final

from popmq_common import properties as names
from popmq_common.names import RETRY_PREFIX, dead_letter_topic, retry_topic
from popmq_common.record import Record

DLQ_REASON: Final = "DLQ_REASON"
DLQ_ATTEMPTS: Final = "DLQ_ATTEMPTS"
REASON_ATTEMPTS: Final = "attempts used up"
_LEFT_OUT: Final = frozenset(
    {"POP_CK", "DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"}
)


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
    counted: bool = True,
) -> Copy:
    """The copy for a lease that ran out (`counted`), or was given back undelivered (not).

    `topic` is the one the group consumes, never the retry topic.
    """
    attempts = record.reconsume_times + 1
    if counted and attempts >= max_attempts:
        return dead_letter(record, group=group, topic=topic, pop_time_ms=pop_time_ms)
    return Copy(
        topic=retry_topic(group, topic),
        properties=names.encode(_kept(record, pop_time_ms)),
        reconsume_times=attempts if counted else record.reconsume_times,
    )


def dead_letter(
    record: Record,
    *,
    group: str,
    topic: str,
    pop_time_ms: int,
    attempts: int | None = None,
    reason: str = REASON_ATTEMPTS,
) -> Copy:
    """`attempts`: deliveries so far, where the record does not count them."""
    kept = _kept(record, pop_time_ms)
    kept[names.DLQ_ORIGIN_TOPIC] = topic
    kept[names.DLQ_ORIGIN_MESSAGE_ID] = kept.get(names.UNIQ_KEY, "")
    kept[DLQ_REASON] = reason
    kept[DLQ_ATTEMPTS] = str(attempts or record.reconsume_times + 1)
    return Copy(topic=dead_letter_topic(group), properties=names.encode(kept), reconsume_times=0)


def is_first_of_pair(record: Record) -> bool:
    return b"1ST_POP_TIME\x01" in record.properties


def _kept(record: Record, pop_time_ms: int) -> dict[str, str]:
    kept = {
        name: value
        for name, value in names.decode(record.properties).items()
        if name not in _LEFT_OUT
    }
    kept.setdefault(names.FIRST_POP_TIME, str(pop_time_ms))
    return kept
