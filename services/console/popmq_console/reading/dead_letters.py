"""Dead letters by reason, and as files that a spreadsheet can open safely."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import moment
from popmq_readings.bodies import body_text

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins so is a formula to a spreadsheet."""
NO_REASON: Final = "(no reason given)"
FIELDS: Final = (
    "messageId",
    "topic",
    "reason",
    "attempts",
    "handedOut",
    "storedAt",
    "sentAgain",
    "broker",
    "offset",
    "bodyBytes",
    "keys",
    "tag",
    "body",
)


@dataclass(slots=True)
class LetterReason:
    """Letters with the same words."""

    text: str
    count: int = 0
    open: int = 0
    """Not sent again so far."""
    oldest_ms: int = 0
    newest_ms: int = 0

    @property
    def label(self) -> str:
        return self.text or NO_REASON


def reasons(letters: Iterable[admin.DeadLetter]) -> list[LetterReason]:
    """The most frequent first."""
    found: dict[str, LetterReason] = {}
    for letter in letters:
        one = found.setdefault(
            letter.reason, LetterReason(letter.reason, oldest_ms=letter.stored_ms)
        )
        one.count += 1
        one.open += not letter.redriven
        one.oldest_ms = min(one.oldest_ms, letter.stored_ms)
        one.newest_ms = max(one.newest_ms, letter.stored_ms)
    return sorted(found.values(), key=lambda one: (-one.count, one.text))


def outcome_of(done: admin.RedriveDeadLettersResponse) -> str:
    """Of one letter that was to be sent again."""
    if done.sent:
        return "sent"
    if done.already:
        return "had been sent before"
    if done.in_order:
        return "left: the group consumes in order; send it to its topic"
    if done.without_topic:
        return "left: its topic is gone or takes no messages"
    return "left: it is no longer there"


def row_of(letter: admin.DeadLetter) -> dict[str, Any]:
    """For a file. A body that is no text is given in hexadecimal, marked so."""
    text = body_text(letter.body)
    return {
        "messageId": letter.message_id,
        "topic": letter.topic,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "handedOut": letter.handed_out or letter.attempts,
        "storedAt": moment(letter.stored_ms),
        "sentAgain": letter.redriven,
        "broker": letter.broker,
        "offset": letter.offset,
        "bodyBytes": letter.body_bytes,
        "keys": letter.properties.get("KEYS", ""),
        "tag": letter.properties.get("TAGS", ""),
        "body": text if text is not None else f"hex:{letter.body.hex()}",
    }


def as_csv(letters: Sequence[admin.DeadLetter], *, with_head: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    if with_head:
        writer.writerow(FIELDS)
    for letter in letters:
        writer.writerow([safe_cell(value) for value in row_of(letter).values()])
    return out.getvalue()


def as_json_lines(letters: Sequence[admin.DeadLetter]) -> str:
    return "".join(json.dumps(row_of(one), ensure_ascii=False) + "\n" for one in letters)


def safe_cell(value: object) -> str:
    """What a spreadsheet would compute gets an apostrophe in front."""
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
