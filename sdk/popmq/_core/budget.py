"""Back-pressure: how many messages and bytes may be held, and who is next when there is room.

Who waits is let in in the order of coming, so a large message is not overtaken for ever. One that
is larger than the whole budget gets in when nothing else is held.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Budget(Generic[K]):
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self.messages = 0
        self.bytes = 0
        self._waiting: OrderedDict[K, int] = OrderedDict()

    def enter(self, size_bytes: int) -> bool:
        """True: it is in. False: there is no room, or others wait."""
        if self._waiting or not self._fits(size_bytes):
            return False
        self._take(size_bytes)
        return True

    def wait(self, who: K, size_bytes: int) -> None:
        """`leave` or `forget` will name it when it is in."""
        self._waiting[who] = size_bytes

    def leave(self, size_bytes: int, messages: int = 1) -> list[K]:
        """They are no longer held; returns who is in now."""
        self.messages -= messages
        self.bytes -= size_bytes
        return self.let_in()

    def forget(self, who: K) -> list[K]:
        """It waits no longer; returns who is in now."""
        self._waiting.pop(who, None)
        return self.let_in()

    def _fits(self, size_bytes: int) -> bool:
        if not self.messages:
            return True
        return self.messages < self._messages_max and self.bytes + size_bytes <= self._bytes_max

    def _take(self, size_bytes: int) -> None:
        self.messages += 1
        self.bytes += size_bytes

    def let_in(self) -> list[K]:
        """Those that wait and fit, from now on held."""
        entered: list[K] = []
        while self._waiting:
            who, size_bytes = next(iter(self._waiting.items()))
            if not self._fits(size_bytes):
                break
            del self._waiting[who]
            self._take(size_bytes)
            entered.append(who)
        return entered
