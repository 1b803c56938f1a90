"""Memory that is free in this process, given back to the system.

Python keeps some freed objects of each kind for the next ones, thousands of tuples say; after a
flood each of them holds a piece of memory of 1 MiB. And the C library takes larger and larger
blocks for blocks to keep, when some have been freed, and gives back the end of its memory alone.
"""

import ctypes
import gc
from typing import Any, Final

from popmq_common.units import MiB

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES_MAX: Final = 16 * MiB
"""Larger blocks go back when they are freed, and so does more than that at the end. A message of
4 MiB stays below that in all forms it takes on its way: memory that is new each time doubles what
it costs."""


def keep_little() -> None:
    """From now on, in this process."""
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)


def give_back() -> None:
    """Takes some milliseconds; for a moment after much was freed."""
    gc.freeze()  # so that the next call looks at nothing, and only frees what is kept
    gc.collect()
    gc.unfreeze()
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_glibc(name: str) -> Any:
    """None: this system has another C library."""
    return getattr(ctypes.CDLL(None), name, None)


class Peak:
    """Tells when much less is in use than a while ago."""

    def __init__(self, worth: int) -> None:
        """`worth`: a peak that is lower leaves nothing that matters."""
        self._worth = worth
        self._peak = 0

    def is_over(self, count: int, most: int) -> bool:
        """True once after each peak, when less than a sixteenth of it is left.

        `count`: in use now; `most`: at a time since this was asked last.
        """
        self._peak = max(self._peak, most)
        if self._peak < self._worth or count > self._peak // 16:
            return False
        self._peak = count
        return True
