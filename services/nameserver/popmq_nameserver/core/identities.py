"""Which data directory each broker name came with first, while this process lives.

A broker that comes with another one has lost its disk, or another disk is mounted. By itself it
cannot know. Other brokers know it too, and for good (broker/engine/catalog/peers.py); a nameserver
knows when there is no other broker, or all of them have lost their disks.
"""

from collections import OrderedDict
from typing import Final

KEPT_MAX: Final = 10_000


class Identities:
    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._first: OrderedDict[str, str] = OrderedDict()
        """By broker name; the name that was not used longest is first."""

    def before(self, name: str, identity: str) -> str:
        """What was seen first under the name, when it is not this one. Empty: nothing else was.

        `identity`: of the broker that registers; empty: one of an older version, that tells none.
        """
        if not identity:
            return ""
        first = self._first.setdefault(name, identity)
        self._first.move_to_end(name)
        if len(self._first) > self._kept_max:
            self._first.popitem(last=False)
        return "" if first == identity else first
