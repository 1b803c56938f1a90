"""How long to wait before the next try."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from `first_s` to `longest_s`; a part of it is chance, so that many do not come at
    the same time."""

    first_s: float = 0.1
    longest_s: float = 2.0

    def after(self, failures: int, chance: float) -> float:
        """`failures`: so far, from 1; `chance`: 0 to 1. Between half and all of the delay."""
        full_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return full_s * (1 + chance) / 2


def attempt_delay_s(delays_s: tuple[float, ...], attempt: int) -> float:
    """The delay after the delivery `attempt`, from 1; behind the last one it stays."""
    return delays_s[min(attempt, len(delays_s)) - 1]
