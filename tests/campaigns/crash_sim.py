"""Crashes of a store on a disk that keeps any subset of what was not synced, each held to bytes.

    PYTHONPATH=tests python -m campaigns.crash_sim [CRASHES] [SEED]

Stores have seeds of their own, counted up; every fourth flushes asynchronously. A violation
prints its seed and how to repeat it.
"""

import asyncio
import random
import sys
import time

from harness.crash_world import CrashWorld

from popmq_common.process import logs

TELL_EVERY = 2_000


def run(crashes: int, seed: int) -> tuple[int, int]:
    """(crashes, worlds)."""
    done = worlds = told = 0
    while done < crashes:
        world = CrashWorld(random.Random(seed + worlds), sync_flush=(seed + worlds) % 4 > 0)
        try:
            asyncio.run(world.run())
        except BaseException:
            print(f"violated: PYTHONPATH=tests python -m campaigns.crash_sim 1 {seed + worlds}")
            raise
        done += world.crashes
        worlds += 1
        if done - told >= TELL_EVERY:
            told = done
            print(f"  {done} crashes", flush=True)
    return done, worlds


def main(arguments: list[str]) -> None:
    logs.configure("error")
    crashes = int(arguments[0]) if arguments else 10_000
    fresh = random.SystemRandom().randrange(1 << 32)
    seed = int(arguments[1]) if len(arguments) > 1 else fresh
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    done, worlds = run(crashes, seed)
    print(f"{done} crashes of {worlds} stores, no violation, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
