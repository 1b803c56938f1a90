"""Who pulls which queue, and who has not followed a reset of its group yet.

A consumer that pulls keeps its place itself. When its group is moved it would go on where it was,
and its next commit would take a reset backward back. So everybody who pulled the queue before is
behind the reset: its pulls are answered with the place to go on at, its commits are refused, until
it pulls there. It is told again and again until then, for an answer may be lost. Where to go is the
place of the reset, or what others of the group have committed since.

    client            pulls at            answer
    ---------------   -----------------   -------------------------------
    new, or follows   anywhere            messages
    behind            where it is to go   messages: it follows from now on
    behind            elsewhere           where it is to go

In memory: after a restart of the broker nobody is behind.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from popmq_broker.core.groups.offsets import QueueKey

PULLERS_MAX: Final = 100_000
"""Clients and queues that are remembered; those silent longest are forgotten, and not told."""
RESETS_MAX: Final = 100_000
"""Queues whose last reset is remembered; the oldest are forgotten first."""


class _Reset(NamedTuple):
    serial: int
    to: int


class Pullers:
    def __init__(self, pullers_max: int = PULLERS_MAX, resets_max: int = RESETS_MAX) -> None:
        self._pullers_max, self._resets_max = pullers_max, resets_max
        self._serial = 0
        self._follows: OrderedDict[tuple[QueueKey, str], int] = OrderedDict()
        """By queue and client, the serial of the last reset it knows."""
        self._resets: OrderedDict[QueueKey, _Reset] = OrderedDict()

    def __len__(self) -> int:
        return len(self._follows)

    def reset(self, key: QueueKey, to: int) -> None:
        """The group goes on at `to`, and so shall everybody who pulls the queue for it."""
        self._serial += 1
        self._resets[key] = _Reset(self._serial, to)
        self._resets.move_to_end(key)
        if len(self._resets) > self._resets_max:
            self._resets.popitem(last=False)

    def is_behind(self, key: QueueKey, client_id: str) -> bool:
        reset, known = self._resets.get(key), self._follows.get((key, client_id))
        return reset is not None and known is not None and known < reset.serial

    def sent_to(self, key: QueueKey, client_id: str, offset: int, committed: int) -> int | None:
        """A pull at `offset`: where it must go instead; None: it may have what is there."""
        if self.is_behind(key, client_id):
            to = self._resets[key].to
            if offset not in (to, committed):
                return max(to, committed)
        self._follows[key, client_id] = self._serial
        self._follows.move_to_end((key, client_id))
        if len(self._follows) > self._pullers_max:
            self._follows.popitem(last=False)
        return None

    def forget(self, key: QueueKey) -> None:
        """The queue or the group is gone: nobody is sent anywhere any more."""
        self._resets.pop(key, None)
