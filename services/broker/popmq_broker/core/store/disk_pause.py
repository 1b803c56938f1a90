"""How long nobody tries again after the disk took nothing: twice as long each time it fails."""


class DiskPause:
    def __init__(self, first_ms: int, longest_ms: int = 30_000) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._next_ms = first_ms
        self._until_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        self._until_ms = now_ms + self._next_ms
        self._next_ms = min(2 * self._next_ms, self._longest_ms)

    def end(self) -> None:
        """The disk takes something again."""
        self._next_ms, self._until_ms = self._first_ms, None

    def left_ms(self, now_ms: int) -> int:
        left_ms = 0 if self._until_ms is None else self._until_ms - now_ms
        return max(0, left_ms) if left_ms <= self._longest_ms else 0  # the wall clock was set back
