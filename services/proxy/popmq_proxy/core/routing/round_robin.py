"""Round robin over things that are used one after the other."""

from collections.abc import Hashable

KEYS_MAX = 20_000


class RoundRobin:
    """A count for each key, so that who takes every second turn of all still gets each of its own.

    The first turns of keys that come one after the other are one apart. No more than `keys_max`
    are remembered; one that was forgotten begins again.
    """

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._turns: dict[Hashable, int] = {}
        self._begun = 0

    def next(self, key: Hashable) -> int:
        turn = self._turns.get(key)
        if turn is None:
            turn = self._begun
            self._begun += 1
            if len(self._turns) >= self._keys_max:
                del self._turns[next(iter(self._turns))]
        self._turns[key] = turn + 1
        return turn
