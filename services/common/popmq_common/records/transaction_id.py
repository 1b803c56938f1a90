"""Transaction id ⇄ text. Where the half message lies is inside, so any proxy can settle it.

    broker : offset in the half topic : log offset : checksum

The offsets are those of the half message as it was first written, also when it was written again
since. The checksum (CRC-32, hexadecimal) covers the rest. Clients take the whole for opaque.

Source: none. RocketMQ's id is the message id; the proxy that sent the half message remembers where
it lies for 30 s, and no other proxy knows.
"""

from typing import NamedTuple
from zlib import crc32

from popmq_common.errors import InvalidTransactionId
from popmq_common.records.properties import number_of


class TransactionId(NamedTuple):
    broker: str
    half_offset: int
    log_offset: int
    """−1: RocketMQ has written the half message and does not tell."""


def encode(place: TransactionId) -> str:
    text = f"{place.broker}:{place.half_offset}:{place.log_offset}"
    return f"{text}:{_checksum(text)}"


def decode(transaction_id: str) -> TransactionId:
    """Raises `InvalidTransactionId` saying what is wrong with it."""
    if not transaction_id.strip():
        raise InvalidTransactionId(reason="it is blank")
    text, _, checksum = transaction_id.rpartition(":")
    fields = text.rsplit(":", 2)
    if len(fields) != 3 or checksum != _checksum(text):
        raise InvalidTransactionId(reason="it is not one of this server's, or changed")
    half_offset = number_of(fields[1])
    log_offset = -1 if fields[2] == "-1" else number_of(fields[2])
    if half_offset is None or log_offset is None:
        raise InvalidTransactionId(reason="its fields cannot be read")
    return TransactionId(fields[0], half_offset, log_offset)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
