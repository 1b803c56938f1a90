"""`python -m replication_sim [SEED STEPS]`: an empty SEED is a fresh one."""

import random
import sys
import time

from replication_sim.simulation import Summary, run

SEEDS = 1 << 32


def main(arguments: list[str]) -> None:
    seed = (
        int(arguments[0]) if arguments and arguments[0] else random.SystemRandom().randrange(SEEDS)
    )
    steps = int(arguments[1]) if len(arguments) > 1 else 100_000
    print(f"seed {seed}, {steps} steps", flush=True)
    began = time.monotonic()
    total = run(seed, steps, _tell)
    print(f"no violation in {total}, {time.monotonic() - began:.0f} s")


def _tell(seed: int, summary: Summary) -> None:
    print(f"  {seed}: {summary}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
