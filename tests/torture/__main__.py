"""`python -m torture`: replicated brokers under load and faults, judged by what clients saw.

It prints its seed first and a line of figures last, and ends with 1 if a promise was broken.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from torture import against, campaign, history, load, registers
from torture.faults import ALONE, LANES
from torture.judge import judge
from torture.outages import outages
from torture.report import report


def main() -> None:
    asked = _arguments()
    if asked.judge:
        sys.exit(_judged(asked.judge))
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1 << 32)
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "history.jsonl"
    print(f"seed {seed}; the history goes to {file}", flush=True)
    clients = asked.clients.split(",")
    with open(file, "w") as out:
        recorder = campaign.Recorder(out, _tell)
        if asked.endpoint:
            against.run(
                folder,
                recorder,
                seed=seed,
                minutes=asked.minutes,
                endpoints=asked.endpoint,
                clients=clients,
            )
        else:
            campaign.run(
                folder,
                recorder,
                seed=seed,
                minutes=asked.minutes,
                brokers=asked.brokers,
                register=asked.register,
                clients=clients,
                lanes=asked.lanes.split(","),
            )
    sys.exit(_judged(file))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of load and faults")
    parser.add_argument("--seed", type=int, help="of the faults; default: a fresh one")
    parser.add_argument(
        "--brokers", type=int, default=1, choices=range(1, 7), help="three replicas each"
    )
    parser.add_argument("--register", default="file", choices=registers.KINDS)
    parser.add_argument("--clients", default="sdk,python", help=f"of {','.join(load.CLIENTS)}")
    parser.add_argument(
        "--lanes",
        default=",".join(LANES),
        help=f"of faults: some of {','.join(LANES)} (default: all), or {' or '.join(ALONE)}",
    )
    parser.add_argument("--keep", type=Path, help="a new folder for history, data and logs")
    parser.add_argument("--endpoint", help="a cluster of yours: load and judge, no faults")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="a history, judged again")
    asked = parser.parse_args()
    if unknown := set(asked.clients.split(",")) - set(load.CLIENTS):
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    if unknown := set(asked.lanes.split(",")) - {*LANES, *ALONE}:
        parser.error(f"no such lane: {', '.join(sorted(unknown))}")
    if asked.keep and asked.keep.exists() and any(asked.keep.iterdir()):
        parser.error(f"{asked.keep} is not empty")
    return asked


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _judged(file: Path) -> int:
    """The exit code."""
    found = history.read(file)
    violations = judge(found)
    print(report(found, violations, outages(found)))
    return 1 if violations else 0


if __name__ == "__main__":
    main()
