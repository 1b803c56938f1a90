"""`python -m sdk_chaos [MESSAGES]`: first SIGTERM alone, then kill -9."""

import sys
import tempfile
from pathlib import Path

from sdk_chaos.campaign import Fault, campaign

RATE = 400.0
GAP_S = 2.0


def main(arguments: list[str]) -> None:
    messages = int(arguments[0]) if arguments else 10_000
    wrong: list[str] = []
    faults: tuple[Fault, ...] = ("stop", "kill")
    with tempfile.TemporaryDirectory() as folder:
        for fault in faults:
            wrong += campaign(Path(folder) / fault, fault, messages, rate=RATE, gap_s=GAP_S)
    for line in wrong:
        print(f"WRONG {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
