"""Lines that say what runs and how long it will still take; and an end that is not interrupted."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

TRUST_S = 60.0
"""The estimate is taken for true as if so many seconds had gone as estimated."""


class Progress:
    """Compares the time that passed with the estimate of what is done."""

    def __init__(self, estimate_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._estimate_s = estimate_s
        self._clock = clock
        self._began = clock()
        self._done_s = 0.0

    def case(self, number: int, rounds: int, title: str) -> None:
        self._say(f"round {number} of {rounds}: {title}")

    def done(self, estimate_s: float, text: str) -> None:
        """What was estimated at so many seconds is over."""
        self._done_s += estimate_s
        self.note(text)

    def note(self, text: str) -> None:
        self._say(f"  {text}")

    def remaining_s(self) -> float:
        """The rest of the estimate, stretched as what is done was."""
        passed_s = self._clock() - self._began
        stretch = (passed_s + TRUST_S) / (self._done_s + TRUST_S)
        return max(self._estimate_s - self._done_s, 0.0) * stretch

    def _say(self, text: str) -> None:
        stamp = time.strftime("%H:%M:%S")
        print(f"{stamp} (still {spoken(self.remaining_s())}) {text}", file=sys.stderr, flush=True)


def spoken(seconds: float) -> str:
    """Minutes, or seconds when there are few."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until this is over: servers are being stopped."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def terminate_as_interrupt() -> None:
    """SIGTERM ends the benchmark as Ctrl-C does, servers included."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
