"""A message's bytes in a SendMessage request, cut into what is read by itself.

Lengths are read where they take one byte, those of values where they take up to two.
Source: `Message` and `SystemProperties` of apache.rocketmq.v2.
"""

from collections.abc import Sequence
from typing import Final

from popmq_common.link.protowire import varint
from popmq_proxy.core.messages.validate import MESSAGE_GROUP_BYTES_MAX

LONG: Final = 0x80
"""A length from here on takes a second byte."""
_QUEUE_TAG: Final = 0x68
_GROUP_TAG: Final = b"\x8a\x01"
_TRACE_TAG: Final = b"\x92\x01"
_NAME_TAG: Final = 0x0A
_VALUE_TAG: Final = 0x12
QUEUE_IDS: Final = frozenset({b"", *(b"\x68" + varint(number) for number in range(LONG))})
"""The field that tells where the client wishes the message to go, if it is there."""


class IsUnusual(Exception):
    """Protobuf is to read the request."""


def end_of_queue_id(system: bytes, at: int) -> int:
    """Raises `IsUnusual`, `IndexError`."""
    if at == len(system) or system[at] != _QUEUE_TAG:
        return at
    if system[at + 1] < LONG:
        return at + 2
    if system[at + 2] < LONG:
        return at + 3
    raise IsUnusual


def group_and_trace(system: bytes, at: int) -> tuple[bytes, bytes]:
    """Empty when it is not there. Raises `IsUnusual`, `IndexError`."""
    group = trace = b""
    if system.startswith(_GROUP_TAG, at):
        end = at + 3 + system[at + 2]
        group = system[at + 3 : end]
        if not group.strip() or len(group) > MESSAGE_GROUP_BYTES_MAX:
            raise IsUnusual
        at = end
    if system.startswith(_TRACE_TAG, at):
        end = at + 3 + system[at + 2]
        trace = system[at + 3 : end]
        if not trace or system[at + 2] >= LONG:
            raise IsUnusual
        at = end
    if at != len(system):
        raise IsUnusual
    return group, trace


def keys_of(fields: bytes) -> list[bytes]:
    """Raises `IsUnusual`."""
    keys: list[bytes] = []
    at = 0
    while at < len(fields):
        end = at + 2 + fields[at + 1]
        key = fields[at + 2 : end]
        if not key.strip():
            raise IsUnusual
        keys.append(key)
        at = end
    return keys


def user_entries(entries: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Names and values of a map. Raises `IsUnusual`, `IndexError`."""
    names: list[bytes] = []
    values: list[bytes] = []
    for entry in entries:
        name_end = 2 + entry[1]
        value_at = name_end + 2
        size = entry[name_end + 1]
        if size >= LONG:
            size += (entry[value_at] - 1) * LONG
            value_at += 1
        is_usual = entry[0] == _NAME_TAG and entry[1] < LONG and entry[name_end] == _VALUE_TAG
        if not is_usual or value_at + size != len(entry):
            raise IsUnusual
        names.append(entry[2:name_end])
        values.append(entry[value_at:])
    return names, values
