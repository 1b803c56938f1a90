"""Duplicate torture: each business message is delivered 1 to 5 times, its handlers die at random
points, acks are lost, sends doubled, deliveries overlap; every effect must be there once.

    python -m idempotence MESSAGES [--seed N] [--only sqlite,postgres,mariadb,redis]
                                   [--kills N] [--json] [--write docs/idempotence.md]

The simulator makes all deliveries of MESSAGES; a real broker and processes that are killed make
those of a tenth of them. Exits with 1 when a strategy does not keep what it promises, or when the
run without idempotence shows no duplicates.
"""

import argparse
import json
import logging
import random
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from harness.processes import standalone
from idempotence import servers
from idempotence.outcome import Outcome, table
from idempotence.runs import STORES, Places, made, planned

TABLE = re.compile(r"(<!-- torture -->\n).*(<!-- end of torture -->)", re.DOTALL)
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "50"}


def told(outcome: Outcome) -> None:
    text = (
        f"{outcome.strategy}, {outcome.store}, {outcome.delivery}: "
        f"{outcome.deliveries} deliveries, {outcome.deaths} deaths, "
        f"{outcome.duplicates} duplicates in {outcome.seconds} s, of CPU time "
        f"{outcome.cpu_s or 'unknown'}: {outcome.failure or 'as promised'}"
    )
    print(text, file=sys.stderr, flush=True)


def run(arguments: argparse.Namespace) -> list[Outcome]:
    wanted = [store for store in STORES if store in arguments.only.split(",")]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(standalone(folder, ENV))
        databases = {}
        if "postgres" in wanted:
            databases["postgres"] = stack.enter_context(servers.postgres())
        if "mariadb" in wanted:
            databases["mariadb"] = stack.enter_context(servers.mariadb())
        redis = stack.enter_context(servers.redis_server())
        places = Places(server.endpoint, redis, databases, folder)
        runs = planned(wanted, arguments.messages, arguments.seed, arguments.kills)
        return made(runs, places, told)


def main() -> int:
    parser = argparse.ArgumentParser(prog="idempotence", description=__doc__)
    parser.add_argument("messages", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--only", default=",".join(STORES))
    parser.add_argument("--kills", type=int, default=20, help="per strategy; 0: no processes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, help="a page whose table is made anew")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"seed {arguments.seed}", file=sys.stderr)
    began_s = time.monotonic()
    outcomes = run(arguments)
    print(f"{len(outcomes)} runs in {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    if arguments.json:
        print(json.dumps([outcome.as_json() for outcome in outcomes], indent=1))
    else:
        print(table(outcomes))
    failures = [outcome for outcome in outcomes if outcome.failure]
    if arguments.write and not any(outcome.error for outcome in failures):
        text = arguments.write.read_text()
        made = table(outcomes)
        arguments.write.write_text(TABLE.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text))
    for outcome in failures:
        name = f"{outcome.strategy}, {outcome.store}, {outcome.delivery}"
        print(f"{name}: {outcome.failure} (seed {arguments.seed})", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
