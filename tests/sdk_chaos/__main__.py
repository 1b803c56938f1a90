"""Consumers, proxies and brokers are ended, each in turn, while the SDK sends and handles messages:
first by SIGTERM alone, then by kill -9.

    python -m sdk_chaos MESSAGES [--only stop,kill] [--json] [--write docs/sdk.md]

Exits with 1 when a message was lost, or came again although SIGTERM alone was used.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from sdk_chaos.campaign import Fault, campaign
from sdk_chaos.findings import table

RATE = 400.0
GAP_S = 2.0
TABLE = re.compile(r"(<!-- chaos -->\n).*(<!-- end of chaos -->)", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="sdk_chaos", description=__doc__)
    parser.add_argument("messages", type=int)
    parser.add_argument("--only", default=",".join(get_args(Fault)))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, help="a page whose table is made anew")
    arguments = parser.parse_args()
    faults: list[Fault] = [name for name in get_args(Fault) if name in arguments.only.split(",")]
    all_found = []
    began_s = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - began_s:7.1f} s  {what}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for fault in faults:
            tell(f"{fault}: {arguments.messages:,} messages")
            place = Path(folder) / fault
            found = campaign(place, fault, arguments.messages, rate=RATE, gap_s=GAP_S, tell=tell)
            tell(f"{fault}: ended\n{table([found])}")
            for line in found.wrong:
                tell(f"WRONG {fault}: {line}")
            all_found.append(found)
    if arguments.json:
        print(json.dumps([found.as_json() for found in all_found], indent=1))
    else:
        print(table(all_found))
    if arguments.write:
        text, made = arguments.write.read_text(), table(all_found)
        arguments.write.write_text(TABLE.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text))
    return 1 if any(found.wrong for found in all_found) else 0


if __name__ == "__main__":
    sys.exit(main())
