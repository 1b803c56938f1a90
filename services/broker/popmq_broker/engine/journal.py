"""Drafts of the revive topic's records: checkpoints, acks, moves of a position."""

from popmq_broker.core import checkpoint as ck
from popmq_broker.core.queue_entry import tags_code
from popmq_broker.engine.state import BrokerState
from popmq_broker.store.store import Draft
from popmq_common import hosts
from popmq_common import properties as names

_CODES = {tag: tags_code(tag) for tag in (ck.CHECKPOINT_TAG, ck.ACK_TAG, ck.BATCH_ACK_TAG)}
_CHECKPOINT_AHEAD_MS = 1_000  # RocketMQ delivers a checkpoint that much before its time


def checkpoint(state: BrokerState, record: ck.Checkpoint, revive_queue: int, now_ms: int) -> Draft:
    due_ms = record.due_ms - _CHECKPOINT_AHEAD_MS
    body = ck.encode_checkpoint(record)
    key = ck.checkpoint_key(record)
    return _draft(state, ck.CHECKPOINT_TAG, key, body, revive_queue, due_ms, now_ms)


def ack(
    state: BrokerState, record: ck.AckRecord, revive_queue: int, due_ms: int, now_ms: int
) -> Draft:
    tag, body = ck.encode_ack(record)
    return _draft(state, tag, ck.ack_key(record), body, revive_queue, due_ms, now_ms)


def _draft(
    state: BrokerState,
    tag: str,
    key: str,
    body: bytes,
    revive_queue: int,
    due_ms: int,
    now_ms: int,
) -> Draft:
    properties = {names.TAGS: tag, names.UNIQ_KEY: key, "TIMER_OUT_MS": str(due_ms)}
    return Draft(
        topic=state.revive_topic,
        queue_id=revive_queue,
        body=body,
        properties=names.encode(properties),
        tags_code=_CODES[tag],
        sys_flag=0,
        flag=0,
        born_timestamp_ms=now_ms,
        born_host=hosts.LOCAL,
    )
