"""What ends a benchmark or one of its rows, told to people."""

import sys
from collections.abc import Callable

from compare.progress import terminate_as_interrupt

FAILED, INTERRUPTED = 2, 130
"""Exit statuses: it could not all be run; Ctrl-C."""


class BenchFailure(Exception):
    """The message says what went wrong and, where there is one, the command that mends it."""


def status_of(program: str, run: Callable[[], int]) -> int:
    """The exit status of a benchmark's command; `run` gives it where nothing ends it before."""
    terminate_as_interrupt()
    try:
        return run()
    except BenchFailure as failure:
        print(f"{program}: {failure}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the servers are stopped", file=sys.stderr)
        return INTERRUPTED
