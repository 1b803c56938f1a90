"""Frames that cost us work and begin nothing: how many of them a client may send.

Resets, pings, settings, windows, priorities, unknown and empty frames, pieces of few bytes. A
connection takes them from an allowance that is filled up as it is used, so that the clock is read
once for `GRANT` of them; the first ones it has for nothing. What its address has in all is looked
at then as well; beyond that each connection has its part and no more.

Honest clients send such frames beside their calls: two windows for each, say. So a call that was
answered adds to the allowance, and so does what an answer brings: no rate of calls is too much.
"""

from time import monotonic
from typing import Final

from popmq_proxy.front.http2.wire import ConnectionBroken, Error

GRANT: Final = 500
CALL: Final = 8
"""What a call is worth that was answered."""
ANSWER_SHIFT: Final = 10
"""A body that leaves is worth a frame for each KiB: clients let more through for each 4 KiB that
they have read, of the stream and of the connection."""
EARNED_MAX: Final = 65_536
"""What a connection may have of these: thousands of polls may be answered at once, and the windows
for them come later."""
REFUSED_STREAM: Final = 5
"""What a refused request counts as."""
RAPID_RESET: Final = 20
"""What a request counts as that is taken back as soon as it was sent: work was begun for it."""
SMALL_BYTES: Final = 64
"""A piece of a request that is smaller than that, and not its last, is one of these frames."""
LONG_BYTES: Final = 1_024
"""An unknown frame counts once more for each of these."""
DECODED_BYTES: Final = 256
"""The same for what a header block has that is long (headers.py), which takes much longer."""
SECOND_S: Final = 1.0


class Spent:
    """Frames granted in the second that began at `since_s`."""

    __slots__ = ("count", "since_s")

    def __init__(self) -> None:
        self.count = 0
        self.since_s = 0.0

    def at(self, now_s: float) -> int:
        if now_s - self.since_s >= SECOND_S:
            self.since_s = now_s
            self.count = 0
        return self.count


class AddressFrames(Spent):
    __slots__ = ("connection_count",)

    def __init__(self) -> None:
        super().__init__()
        self.connection_count = 0


class IdleFrames:
    """Those of one connection."""

    def __init__(self, address: AddressFrames, second_max: int, address_second_max: int) -> None:
        self._left = GRANT
        self._own = Spent()
        self._address = address
        self._second_max = second_max
        self._address_second_max = address_second_max

    def earn(self, count: int) -> None:
        """Beside the next ones there was work."""
        left = self._left + count
        self._left = left if left < EARNED_MAX else EARNED_MAX

    def spend(self, count: int = 1) -> None:
        """Raises `ConnectionBroken` when there were too many."""
        self._left -= count
        while self._left < 0:
            self._fill_up()

    def _fill_up(self) -> None:
        now_s, address = monotonic(), self._address
        own, of_address = self._own.at(now_s), address.at(now_s)
        grant = min(GRANT, self._second_max - own)
        if of_address + GRANT > self._address_second_max:
            part = self._address_second_max // max(1, address.connection_count)
            grant = min(grant, part - own)
        if grant <= 0:
            raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, "too many frames that begin nothing")
        self._own.count = own + grant
        address.count = of_address + grant
        self._left += grant
