"""The health of the broker at the other end of a connection, by when it was heard last.

    quiet ──PING_AFTER_S without a word──► asked ──SILENT_AFTER_S──► silent ──LOST_AFTER_S──► lost
      ▲                                      │                         │
      └──────────────a word────────────────┴─────────────────────────┘

A silent broker may be paused, cut off, or very busy: what others can do is given to others, and
nothing is refused for it. A lost one's connection is given up. Source: none; RocketMQ's proxy
waits for its time-outs.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

TICK_S: Final = 0.5
"""How often a connection is looked at."""
PING_AFTER_S: Final = 1.0
SILENT_AFTER_S: Final = 1.5
"""After a ping that nobody answered."""
LOST_AFTER_S: Final = 15.0
"""After it too; longer than any start of a broker keeps it from answering."""
SLEPT_S: Final = 4 * TICK_S
"""Between two looks: this process itself did not run."""


class Look(Enum):
    QUIET = "quiet"
    ASK = "ask"
    """Send a ping now."""
    ASKED = "asked"
    SILENT = "silent"
    LOST = "lost"


@dataclass(slots=True)
class BrokerHealth:
    """Of one connection. Seconds of a clock that never goes back."""

    heard_s: float
    looked_s: float
    asked_s: float | None = None
    silent: bool = False

    def heard(self, now_s: float) -> None:
        """A frame has come."""
        self.heard_s = now_s
        self.asked_s = None
        self.silent = False

    def look(self, now_s: float) -> Look:
        """Every `TICK_S`."""
        slept = now_s - self.looked_s > SLEPT_S
        self.looked_s = now_s
        if self.asked_s is None:
            if now_s - self.heard_s < PING_AFTER_S:
                return Look.QUIET
            self.asked_s = now_s
            return Look.ASK
        if slept:  # its answer may lie unread here
            self.asked_s = max(self.asked_s, now_s - SILENT_AFTER_S)
        waited_s = now_s - self.asked_s
        if waited_s >= LOST_AFTER_S:
            return Look.LOST
        if waited_s >= SILENT_AFTER_S and not slept:
            self.silent = True
        return Look.SILENT if self.silent else Look.ASKED
