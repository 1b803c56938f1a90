"""Pop checkpoints and acks ⇄ the JSON bodies RocketMQ puts into the revive topic.

A checkpoint (tag `ck`) says: at `pop_time_ms` these offsets of a queue were handed to a group and
are hidden for `invisible_ms`. An ack (tag `ack`, or `bAck` for several offsets of one checkpoint)
says one of them is done.

    checkpoint   so start offset · pt pop time · it invisible time · bm bitmap (0 as written)
                 n count · q queue id · t topic (the retry topic's name for retries) · c group
                 ro revive offset · d offsets minus so · bn broker · rp times put again
    ack          ao offset · so · c · t · q · pt · bn          batch: ao −1, aol offsets
    ours         nx next offset, where a restart goes on, when it is not behind the last one: the
                 checkpoint was stored late, and what it leaves out had been acked.
                 nk kind of a nack that waits for its delay, nr its reason. lr the last counted
                 reason of each offset, of a FIFO group and only if there is one.
                 g generation, only when above 1: the lease replaced an older one of the message.
                 ci the client whose signs of life renew it, and rm for how many ms each time. The
                 same checkpoint again, so of c, t, q, pt and g, with a longer it: it was renewed.
                 at attempts so far of each offset, of a FIFO group; ho how often each was handed
                 out, only if that is not the same; ai its receive's attempt id.
                 x 1 in an ack: the lease was not acked, a copy was written for redelivery.
                 RocketMQ's reader passes over names it does not know.

A checkpoint with n = 0 hands out nothing: it moves the group's position in the queue to `so` and
voids the leases before it; `so` −1 forgets the queue.

Source: RocketMQ PopCheckPoint, AckMsg, BatchAckMsg, PopAckConstants.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from popmq_broker.core.leases.nack import Nack, NackKind
from popmq_common.errors import Corrupt
from popmq_common.units import QueueOffset

CHECKPOINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
CHECKPOINT_OFFSETS_MAX: Final = 32  # bits of RocketMQ's bitmap


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    topic: str
    group: str
    queue_id: int
    start_offset: QueueOffset
    offsets: tuple[int, ...]
    """Queue offsets handed out, growing; empty: only the position moved."""
    pop_time_ms: int
    invisible_ms: int
    broker: str
    generation: int = 1
    attempts: tuple[int, ...] = ()
    """Of a FIFO group: how often each message was handed out, this time included, less the times
    that did not count."""
    handed_out: tuple[int, ...] = ()
    """Of a FIFO group: all of them."""
    attempt_id: str = ""
    moves_to: int | None = None
    """Where the queue is popped next; None: behind the last of `offsets`."""
    nack: Nack | None = None
    reasons: tuple[str, ...] = ()
    """Of a FIFO group: why the last counted attempt of each failed; empty: none has a reason."""
    client_id: str = ""
    """Whose signs of life renew it; empty: it is not renewed."""
    renew_ms: int = 0

    @property
    def due_ms(self) -> int:
        return self.pop_time_ms + self.invisible_ms

    @property
    def next_offset(self) -> QueueOffset:
        """Where the queue is popped next."""
        if self.moves_to is not None:
            return QueueOffset(self.moves_to)
        last = self.offsets[-1] + 1 if self.offsets else self.start_offset
        return QueueOffset(last)


@dataclass(frozen=True, slots=True, kw_only=True)
class AckRecord:
    topic: str
    group: str
    queue_id: int
    start_offset: QueueOffset
    offsets: tuple[int, ...]
    pop_time_ms: int
    broker: str
    generation: int = 1
    expired: bool = False
    """The lease ended without an ack: a copy of the message was written beside this record."""


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    assert len(checkpoint.offsets) <= CHECKPOINT_OFFSETS_MAX
    start = checkpoint.start_offset
    fields: dict[str, Any] = {
        "bm": 0,
        "bn": checkpoint.broker,
        "c": checkpoint.group,
        "d": [offset - start for offset in checkpoint.offsets],
        "it": checkpoint.invisible_ms,
        "n": len(checkpoint.offsets),
        "pt": checkpoint.pop_time_ms,
        "q": checkpoint.queue_id,
        "ro": 0,
        "so": start,
        "t": checkpoint.topic,
    }
    if checkpoint.attempts:
        fields["at"] = checkpoint.attempts
    if checkpoint.handed_out != checkpoint.attempts:
        fields["ho"] = checkpoint.handed_out
    if checkpoint.attempt_id:
        fields["ai"] = checkpoint.attempt_id
    if checkpoint.moves_to is not None:
        fields["nx"] = checkpoint.moves_to
    if checkpoint.nack is not None:
        fields["nk"] = checkpoint.nack.kind.value
        fields["nr"] = checkpoint.nack.reason
    if any(checkpoint.reasons):
        fields["lr"] = checkpoint.reasons
    if checkpoint.client_id:
        fields["ci"] = checkpoint.client_id
        fields["rm"] = checkpoint.renew_ms
    return _encode(fields, checkpoint.generation)


def decode_checkpoint(body: bytes, *, where: str) -> Checkpoint:
    """Raises `Corrupt` naming `where`."""
    fields = _decode(body, where)
    try:
        start = int(fields["so"])
        deltas = fields.get("d") or range(int(fields["n"]))
        return Checkpoint(
            topic=str(fields["t"]),
            group=str(fields["c"]),
            queue_id=int(fields["q"]),
            start_offset=QueueOffset(start),
            offsets=tuple(start + int(delta) for delta in deltas),
            pop_time_ms=int(fields["pt"]),
            invisible_ms=int(fields["it"]),
            broker=str(fields.get("bn") or ""),
            generation=int(fields.get("g", 1)),
            attempts=tuple(int(count) for count in fields.get("at", ())),
            handed_out=tuple(int(count) for count in fields.get("ho", fields.get("at", ()))),
            attempt_id=str(fields.get("ai", "")),
            moves_to=int(fields["nx"]) if "nx" in fields else None,
            nack=Nack(NackKind(fields["nk"]), str(fields.get("nr", "")))
            if "nk" in fields
            else None,
            reasons=tuple(str(reason) for reason in fields.get("lr", ())),
            client_id=str(fields.get("ci", "")),
            renew_ms=int(fields.get("rm", 0)),
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no checkpoint: {wrong!r}") from wrong


def encode_ack(ack: AckRecord) -> tuple[str, bytes]:
    """(tag, body): a single ack, or a batch of one checkpoint."""
    assert ack.offsets
    fields: dict[str, Any] = {
        "ao": ack.offsets[0] if len(ack.offsets) == 1 else -1,
        "bn": ack.broker,
        "c": ack.group,
        "pt": ack.pop_time_ms,
        "q": ack.queue_id,
        "so": ack.start_offset,
        "t": ack.topic,
    }
    if ack.expired:
        fields["x"] = 1
    if len(ack.offsets) == 1:
        return ACK_TAG, _encode(fields, ack.generation)
    fields["aol"] = list(ack.offsets)
    return BATCH_ACK_TAG, _encode(fields, ack.generation)


def decode_ack(body: bytes, *, where: str) -> AckRecord:
    """Raises `Corrupt` naming `where`. Reads RocketMQ's long names too."""
    fields = _decode(body, where)

    def get(short: str, long: str) -> Any:
        return fields[short] if short in fields else fields[long]

    try:
        several = fields.get("aol") or fields.get("ackOffsetList")
        offsets = several if several else [get("ao", "ackOffset")]
        return AckRecord(
            topic=str(get("t", "topic")),
            group=str(get("c", "consumerGroup")),
            queue_id=int(get("q", "queueId")),
            start_offset=QueueOffset(int(get("so", "startOffset"))),
            offsets=tuple(int(offset) for offset in offsets),
            pop_time_ms=int(get("pt", "popTime")),
            broker=str(fields.get("bn") or fields.get("brokerName") or ""),
            generation=int(fields.get("g", 1)),
            expired=bool(fields.get("x", 0)),
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no ack: {wrong!r}") from wrong


def checkpoint_key(checkpoint: Checkpoint) -> str:
    """The record's UNIQ_KEY, as RocketMQ makes it."""
    c = checkpoint
    return f"{c.topic}@{c.queue_id}@{c.start_offset}@{c.group}@{c.pop_time_ms}@{c.broker}@ck"


def ack_key(ack: AckRecord) -> str:
    """The record's UNIQ_KEY, as RocketMQ makes it."""
    what = ack.offsets[0] if len(ack.offsets) == 1 else list(ack.offsets)
    kind = f"{ack.broker}@{ACK_TAG}" if len(ack.offsets) == 1 else BATCH_ACK_TAG
    return f"{ack.topic}@{ack.queue_id}@{what}@{ack.group}@{ack.pop_time_ms}@{kind}"


def _encode(fields: dict[str, Any], generation: int) -> bytes:
    if generation > 1:
        fields["g"] = generation
    return _TO_JSON(fields).encode()


_TO_JSON: Final = json.JSONEncoder(separators=(",", ":")).encode


def _decode(body: bytes, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no JSON: {wrong}") from wrong
    if not isinstance(fields, dict):
        raise Corrupt(path=where, offset="?", reason="no JSON object")
    return fields
