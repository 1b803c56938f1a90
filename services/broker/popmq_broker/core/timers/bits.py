"""A set of offsets of one queue, one bit for each."""


class Bits:
    def __init__(self, start: int, end: int) -> None:
        """Offsets from `start` to before `end`; others are never in it."""
        self._start = start
        self._count = max(0, end - start)
        self._bytes = bytearray((self._count + 7) // 8)

    def add(self, offset: int) -> None:
        i = offset - self._start
        if 0 <= i < self._count:
            self._bytes[i >> 3] |= 1 << (i & 7)

    def __contains__(self, offset: int) -> bool:
        i = offset - self._start
        return 0 <= i < self._count and bool(self._bytes[i >> 3] >> (i & 7) & 1)
