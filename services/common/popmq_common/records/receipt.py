"""Receipt handle ⇄ text. Everything an ack needs is inside, so any proxy can serve it.

Eleven fields, separated by blanks; the first nine are RocketMQ's:

    start offset · pop time ms · invisible ms · revive queue · retry mark · broker · queue id
    · queue offset · log offset · generation · checksum

The checksum (CRC-32, hexadecimal) covers the fields and the group and topic it was given for: a
handle of another group or topic is found out by the proxy, one whose lease is gone by the broker.

A twelfth field is a queue offset: the handle is that of another message of the same grant. So who
was given a whole run of messages by one handle can tell of each of them.

Source: RocketMQ ReceiptHandle, ExtraInfoUtil. Differs: generation and checksum.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from popmq_common.errors import InvalidReceiptHandle

FIELD_COUNT = 11
"""Of a handle that was given; one of a run has one more."""


class Receipt(NamedTuple):
    start_offset: int
    """First offset of the checkpoint."""
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    retry_mark: int
    """0: of the topic itself; 1: of the group's retry topic."""
    broker: str
    queue_id: int
    queue_offset: int
    log_offset: int
    generation: int
    """1 for the first lease of this copy of the message, then 2, 3 …"""


def encode(receipt: Receipt, group: str, topic: str) -> str:
    assert " " not in receipt.broker
    text = " ".join([str(field) for field in receipt])
    return f"{text} {_checksum(text, group, topic)}"


def encode_all(
    first: Receipt, places: Sequence[tuple[int, int]], group: str, topic: str
) -> list[str]:
    """Handles of one grant: as `first`, with each (queue offset, log offset) in turn.

    0.9 µs for one of 32, where `encode` takes 2.6 µs.
    """
    head = " ".join([str(field) for field in first[:7]])
    tail = f" {first.generation}"
    covered = f" {group} {topic}".encode()
    begun = crc32(head.encode())
    handles = []
    for queue_offset, log_offset in places:
        own = f" {queue_offset} {log_offset}{tail}"
        handles.append(f"{head}{own} {crc32(covered, crc32(own.encode(), begun)):08x}")
    return handles


def of_run(handle: str, queue_offset: int) -> str:
    """The handle of another message of the grant that `handle` is of."""
    return f"{handle} {queue_offset}"


def _given(handle: str) -> str:
    """Without the field that makes it another message's."""
    if handle.count(" ") != FIELD_COUNT:
        return handle
    given, _, offset = handle.rpartition(" ")
    return given if offset.isdecimal() else handle


def broker_of(handle: str, group: str, topic: str) -> str:
    """Which broker to ask. Raises `InvalidReceiptHandle` saying what is wrong with it."""
    handle = _given(handle)
    fields = handle.split(" ")
    if len(fields) != FIELD_COUNT:
        raise InvalidReceiptHandle(reason="it is not one of this server's")
    text = handle[: -1 - len(fields[10])]
    if fields[10] != _checksum(text, group, topic):
        raise InvalidReceiptHandle(reason="it was not given for this group and topic, or changed")
    return fields[5]


def decode(handle: str) -> Receipt:
    """A handle whose checksum has been looked at. Raises `InvalidReceiptHandle`."""
    given = _given(handle)
    try:
        start, popped, invisible, revive, mark, broker, queue, offset, log, gen, _ = given.split(
            " "
        )
        if given is not handle:
            offset = handle[len(given) + 1 :]
        return Receipt(
            int(start),
            int(popped),
            int(invisible),
            int(revive),
            int(mark),
            broker,
            int(queue),
            int(offset),
            int(log),
            int(gen),
        )
    except ValueError:
        raise InvalidReceiptHandle(reason="its fields cannot be read") from None


def runs(handles: Iterable[str]) -> Iterator[tuple[Receipt, list[int]]]:
    """Handles that follow each other and are of one grant, by the first of them and the queue
    offsets of all: of their fields only the offsets and the checksum differ.

    Their checksums have been looked at. Raises `InvalidReceiptHandle`.
    """
    begun: tuple[str, str] | None = None
    first, offsets = "", list[int]()
    for handle in handles:
        try:
            if handle.count(" ") == FIELD_COUNT:
                head, _, offset = handle.rpartition(" ")
                generation = ""
            else:
                head, offset, _, generation, _ = handle.rsplit(" ", 4)
            at = int(offset)
        except ValueError:
            raise InvalidReceiptHandle(reason="its fields cannot be read") from None
        if begun != (head, generation):
            if offsets:
                yield decode(first), offsets
            begun, first, offsets = (head, generation), handle, []
        offsets.append(at)
    if offsets:
        yield decode(first), offsets


def last_end_ms(handles: Sequence[str]) -> int:
    """When the last of these leases is over, as the handles tell: milliseconds since 1970 by the
    broker's clock. Renewals by the broker change no handle. Raises `InvalidReceiptHandle`."""
    receipts = [decode(handle) for handle in handles]
    return max(receipt.pop_time_ms + receipt.invisible_ms for receipt in receipts)


def _checksum(text: str, group: str, topic: str) -> str:
    return f"{crc32(f'{text} {group} {topic}'.encode()):08x}"
