"""Random histories of settings: what does `popmq store rebuild --settings` make of their logs?

    PYTHONPATH=tests python -m campaigns.settings_in_log [HISTORIES] [SEED]

A history changes topics, groups, users, peers and the permission, sends, turns the log over, is
stopped and cut off. Histories have seeds of their own, counted up; a violation prints how to repeat
it.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

from harness.broker import QUICK_DISK
from harness.setting_histories import any_history, check

from popmq_common.process import logs

TELL_EVERY = 500


def run(histories: int, seed: int) -> int:
    """Steps taken. Raises `AssertionError` for a history that the log does not tell."""
    steps = 0
    for number in range(histories):
        history = any_history(random.Random(seed + number))
        with tempfile.TemporaryDirectory(prefix="popmq-settings-", dir=QUICK_DISK) as folder:
            try:
                check(Path(folder), history)
            except BaseException:
                again = f"PYTHONPATH=tests python -m campaigns.settings_in_log 1 {seed + number}"
                print(f"violated: {again}; {history}", flush=True)
                raise
        steps += len(history)
        if (number + 1) % TELL_EVERY == 0:
            print(f"  {number + 1} histories", flush=True)
    return steps


def main(arguments: list[str]) -> None:
    logs.configure("error")
    histories = int(arguments[0]) if arguments else 10_000
    fresh = random.SystemRandom().randrange(1 << 32)
    seed = int(arguments[1]) if len(arguments) > 1 else fresh
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    steps = run(histories, seed)
    took_s = time.monotonic() - began
    print(f"{histories} histories of {steps} steps, no violation, {took_s:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
