"""Message and client ids as official clients make them.

A message id has 34 upper-case hexadecimal digits: version 01, 6 bytes MAC, 2 bytes process id,
4 bytes seconds since 2021-01-01 UTC, 4 bytes counter. It is made before the first try and kept
over retries.

Source: docs/message_id.md of apache/rocketmq-clients.
"""

from itertools import count

EPOCH_S = 1_609_459_200  # 2021-01-01T00:00:00Z
_VERSION = "01"


class MessageIds:
    def __init__(self, mac: int, pid: int, now_s: int) -> None:
        self._prefix = f"{_VERSION}{mac & 0xFFFFFFFFFFFF:012X}{pid & 0xFFFF:04X}"
        self._seconds = (now_s - EPOCH_S) & 0xFFFFFFFF
        self._counter = count()

    def next(self) -> str:
        number = next(self._counter)
        seconds = (self._seconds + (number >> 32)) & 0xFFFFFFFF
        return f"{self._prefix}{seconds:08X}{number & 0xFFFFFFFF:08X}"
