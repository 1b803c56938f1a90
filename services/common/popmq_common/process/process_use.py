"""What this process takes of the machine."""

import os
import time
from pathlib import Path
from typing import Final

_PAGES: Final = Path("/proc/self/statm")


def cpu_ms() -> int:
    """Of all its threads, in user and system mode, since its start."""
    return time.process_time_ns() // 1_000_000


def memory_bytes() -> int:
    """In memory now, mapped files included; 0 where the system does not tell."""
    try:
        return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
