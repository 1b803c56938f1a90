"""Drafts of the revive topic's records: checkpoints, acks, position changes, groups' starts."""

from popmq_broker.core.groups import passing
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.passing import PASS_TAG, PassRecord
from popmq_broker.core.groups.starts import START_TAG, GroupStart, StartKey, encode, record_key
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.leases.grant import Grant
from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.store import Draft
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_common.units import QueueOffset

_TAGS = (ck.CHECKPOINT_TAG, ck.ACK_TAG, ck.BATCH_ACK_TAG, START_TAG, PASS_TAG)
_CODES = {tag: tags_code(tag) for tag in _TAGS}


def grant_record(
    runtime: Runtime,
    key: QueueKey,
    grant: Grant,
    offsets: tuple[int, ...],
    *,
    moves_to: int | None = None,
    attempts: tuple[int, ...] = (),
    handed_out: tuple[int, ...] = (),
    attempt_id: str = "",
    reasons: tuple[str, ...] = (),
) -> ck.Checkpoint:
    """What the journal says of a grant and these messages of it."""
    return ck.Checkpoint(
        topic=key.topic,
        group=key.group,
        queue_id=key.queue_id,
        start_offset=QueueOffset(grant.start_offset),
        offsets=offsets,
        pop_time_ms=grant.pop_time_ms,
        invisible_ms=grant.invisible_ms,
        broker=runtime.config.name,
        generation=grant.generation,
        attempts=attempts,
        handed_out=handed_out,
        attempt_id=attempt_id,
        moves_to=moves_to,
        nack=grant.nack,
        reasons=reasons,
        client_id=grant.client_id,
        renew_ms=grant.renew_ms,
    )


def checkpoint(runtime: Runtime, record: ck.Checkpoint, revive_queue: int, now_ms: int) -> Draft:
    body = ck.encode_checkpoint(record)
    key = ck.checkpoint_key(record)
    return _draft(runtime, ck.CHECKPOINT_TAG, key, body, revive_queue, now_ms)


def ack(
    runtime: Runtime,
    key: QueueKey,
    grant: Grant,
    offsets: tuple[int, ...],
    *,
    now_ms: int,
    expired: bool = False,
) -> Draft:
    """The end of these leases of one grant."""
    record = ck.AckRecord(
        topic=key.topic,
        group=key.group,
        queue_id=key.queue_id,
        start_offset=QueueOffset(grant.start_offset),
        offsets=offsets,
        pop_time_ms=grant.pop_time_ms,
        broker=runtime.config.name,
        generation=grant.generation,
        expired=expired,
    )
    tag, body = ck.encode_ack(record)
    name = ck.ack_key(record)
    return _draft(runtime, tag, name, body, grant.revive_queue, now_ms)


def start(
    runtime: Runtime,
    key: StartKey,
    start: GroupStart | None,
    now_ms: int,
    *,
    was_reset: bool = False,
) -> Draft:
    """Where a group starts in a topic, or that it no longer has a start there."""
    body = encode(key, start, was_reset=was_reset)
    return _draft(runtime, START_TAG, record_key(key, now_ms), body, 0, now_ms)


def passes(runtime: Runtime, record: PassRecord, now_ms: int) -> Draft:
    """In which way a group goes over a queue from now on."""
    body, name = passing.encode(record), passing.record_key(record, now_ms)
    return _draft(runtime, PASS_TAG, name, body, 0, now_ms)


def _draft(
    runtime: Runtime,
    tag: str,
    key: str,
    body: bytes,
    revive_queue: int,
    now_ms: int,
) -> Draft:
    """With the time it came into the topic: RocketMQ's revive service takes the latest such time
    for its clock, and without any it never finds that a lease has ended."""
    properties = {names.TAGS: tag, names.UNIQ_KEY: key, names.DELIVER_MS: str(now_ms)}
    return Draft(
        topic=runtime.revive_topic,
        queue_id=revive_queue,
        body=body,
        properties=names.encode(properties),
        tags_code=_CODES[tag],
        sys_flag=0,
        flag=0,
        born_timestamp_ms=now_ms,
        born_host=hosts.LOCAL,
    )
