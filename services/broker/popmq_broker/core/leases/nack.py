"""What a consumer says of a message that it does not want now.

    counted      a failed attempt. It is redelivered after the delay, its attempt one higher;
                 after the last attempt it goes to the dead letters at once
    uncounted    given back. It is redelivered after the delay, its attempt the same; after the last
                 delivery to the dead letters (core/retries/deliveries.py)
    fatal        to the dead letters at once

A nack with a delay is a lease that nobody has a handle of: it ends when it is due, and then the
nack says how. So a restart knows it like any lease, from its checkpoint.
"""

from enum import IntEnum
from typing import Final, NamedTuple

REASON_CHARS_MAX: Final = 1_000
_BLANKS: Final = {code: " " for code in (*range(0x20), 0x7F)}


class NackKind(IntEnum):
    """The numbers are those of the link and of checkpoint records."""

    COUNTED = 1
    UNCOUNTED = 2
    FATAL = 3


class Nack(NamedTuple):
    kind: NackKind
    reason: str = ""


def clean_reason(text: str) -> str:
    """One line of `REASON_CHARS_MAX` characters at most: control characters end a property."""
    line = text.translate(_BLANKS).strip()
    return line if len(line) <= REASON_CHARS_MAX else line[: REASON_CHARS_MAX - 1] + "…"
