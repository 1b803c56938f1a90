"""Receipt handle ⇄ text. Everything an ack needs is inside, so any proxy can serve it.

Eleven fields, separated by blanks; the first nine are RocketMQ's:

    start offset · pop time ms · invisible ms · revive queue · retry mark · broker · queue id
    · queue offset · log offset · generation · checksum

The checksum (CRC-32, hexadecimal) covers the fields and the group and topic it was given for: a
handle of another group or topic is found out here, one whose lease is gone at the broker.

Source: RocketMQ ReceiptHandle, ExtraInfoUtil. Differs: generation and checksum.
"""

import zlib
from typing import NamedTuple

from popmq_common.errors import InvalidReceiptHandle
from popmq_internal.v1 import link_pb2 as link

FIELD_COUNT = 11


class Receipt(NamedTuple):
    broker: str
    lease: link.LeaseRef


def encode(receipt: Receipt, group: str, topic: str) -> str:
    lease = receipt.lease
    assert " " not in receipt.broker
    text = (
        f"{lease.start_offset} {lease.pop_time_ms} {lease.invisible_ms} {lease.revive_queue} "
        f"{lease.retry_mark} {receipt.broker} {lease.queue_id} {lease.queue_offset} "
        f"{lease.log_offset} {lease.generation}"
    )
    return f"{text} {_checksum(text, group, topic)}"


def decode(handle: str, group: str, topic: str) -> Receipt:
    """Raises `InvalidReceiptHandle` saying what is wrong with it."""
    fields = handle.split(" ")
    if len(fields) != FIELD_COUNT:
        raise InvalidReceiptHandle(reason="it is not one of this server's")
    text, _, checksum = handle.rpartition(" ")
    if checksum != _checksum(text, group, topic):
        raise InvalidReceiptHandle(reason="it was not given for this group and topic, or changed")
    try:
        numbers = [int(field) for i, field in enumerate(fields[:10]) if i != 5]
        start, pop_time, invisible, revive_queue, mark, queue, offset, log_offset, gen = numbers
        lease = link.LeaseRef(
            start_offset=start,
            pop_time_ms=pop_time,
            invisible_ms=invisible,
            revive_queue=revive_queue,
            retry_mark=mark,
            queue_id=queue,
            queue_offset=offset,
            log_offset=log_offset,
            generation=gen,
        )
    except ValueError:
        raise InvalidReceiptHandle(reason="its numbers cannot be read") from None
    return Receipt(fields[5], lease)


def _checksum(text: str, group: str, topic: str) -> str:
    return f"{zlib.crc32(f'{text} {group} {topic}'.encode()):08x}"
