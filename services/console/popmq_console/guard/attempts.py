"""How often somebody may try to log in: few failures a minute of one address for one user, some
more of one address, and of one user from anywhere."""

from typing import Final

WINDOW_MS: Final = 60_000
TOGETHER_MAX: Final = 5
ADDRESS_MAX: Final = 30
USER_MAX: Final = 50
KEYS_MAX: Final = 10_000
Key = tuple[str, str]


def _bounds(user: str, address: str) -> dict[Key, int]:
    return {(user, address): TOGETHER_MAX, ("", address): ADDRESS_MAX, (user, ""): USER_MAX}


class LoginAttempts:
    """Failed ones of the last minute."""

    def __init__(self) -> None:
        self._failed: dict[Key, list[int]] = {}
        """Times, the oldest first."""

    def wait_ms(self, user: str, address: str, now_ms: int) -> int:
        """Until the next try; 0: now."""
        bounds = _bounds(user, address)
        return max(self._wait_ms(key, most, now_ms) for key, most in bounds.items())

    def failed(self, user: str, address: str, now_ms: int) -> None:
        for key, most in _bounds(user, address).items():
            if key not in self._failed and len(self._failed) >= KEYS_MAX:
                self._forget(now_ms)
            self._failed[key] = [*self._failed.get(key, []), now_ms][-most:]

    def succeeded(self, user: str, address: str) -> None:
        self._failed.pop((user, address), None)

    def _wait_ms(self, key: Key, most: int, now_ms: int) -> int:
        times = [at_ms for at_ms in self._failed.get(key, []) if now_ms - at_ms < WINDOW_MS]
        return times[0] + WINDOW_MS - now_ms if len(times) >= most else 0

    def _forget(self, now_ms: int) -> None:
        """What is over; if all are recent, the older half."""
        newest = {key: times[-1] for key, times in self._failed.items()}
        kept = [key for key, at_ms in newest.items() if now_ms - at_ms < WINDOW_MS]
        kept = sorted(kept, key=newest.__getitem__)[-(KEYS_MAX // 2) :]
        self._failed = {key: self._failed[key] for key in kept}
