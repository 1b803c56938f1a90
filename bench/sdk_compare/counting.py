"""What both clients' processes have in common; imports nothing of either.

A process prints the names of its ways, then does what each line of its standard input says, a way
and for how many seconds, and prints what came of it. All lines are JSON.
"""

import time

BODY = bytes(range(256)) * 4
"""Of every message, 1 KiB; what is received is compared with it."""


class Count:
    """Of one way, for some seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._began_s = time.perf_counter()
        self._began_cpu_s = time.process_time()
        self.end_s = self._began_s + seconds
        self.messages = 0
        self.wrong = 0
        """Bodies that are not what was sent."""

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self.end_s

    def done(self) -> dict[str, float]:
        return {
            "messages": self.messages,
            "seconds": time.perf_counter() - self._began_s,
            "cpu_s": time.process_time() - self._began_cpu_s,
            "wrong": self.wrong,
        }
