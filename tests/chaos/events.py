"""What a client wrote down, a JSON object a line: each call, when it began and ended, and how.

    {"what": "send", "began_s": 1.0, "ended_s": 1.1, "body": "sdk/n0/7", "attempt": 0, "error": ""}

`what` is send, receive or ack; a receive has an event for each message, and one when it failed.

A message's body is its name: KIND/LINE/NUMBER. A line is one sender; those whose name begins with
"f" are a message group, and send the next only when the one before was answered OK.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    """Of client: sdk, python, go."""
    what: str
    began_s: float
    ended_s: float
    body: str
    """Empty for a receive that failed."""
    attempt: int
    error: str
    """Empty: it was answered OK."""

    @property
    def line(self) -> str:
        return self.body.rpartition("/")[0]

    @property
    def number(self) -> int:
        return int(self.body.rpartition("/")[2])

    @property
    def in_order(self) -> bool:
        return self.line.partition("/")[2].startswith("f")


def read(kind: str, path: Path) -> Iterator[Event]:
    """A last line that is not whole belongs to a client that was killed."""
    with open(path) as lines:
        for line in lines:
            if not line.endswith("\n"):
                return
            fields = json.loads(line)
            yield Event(
                kind,
                fields["what"],
                fields["began_s"],
                fields["ended_s"],
                fields.get("body", ""),
                fields.get("attempt", 0),
                fields.get("error", ""),
            )
