"""Duplicate torture: each business message is delivered 1 to 5 times, its handlers die at random
points, acks are lost, sends doubled, deliveries overlap; every effect must be there once.

    python -m idempotence MESSAGES [--seed N] [--only sqlite,postgres,mariadb,redis]
                                   [--kills N] [--json] [--write docs/idempotence.md]

The simulator makes all deliveries of MESSAGES; a real broker and processes that are killed make
those of a tenth of them. Exits with 1 when a strategy does not keep what it promises, or when the
run without idempotence shows no duplicates.
"""

import argparse
import asyncio
import json
import logging
import random
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.processes import Server, standalone
from idempotence import servers
from idempotence.death import MortalRedis
from idempotence.killed import with_kills
from idempotence.ledger import connect, prepare
from idempotence.outcome import Outcome, table
from idempotence.simulator import WORKERS, WORKERS_SQLITE, simulate
from idempotence.strategies import ONCE, REDIS, SQL, InMemory, Stores, Strategy

STORES = ("sqlite", "postgres", "mariadb", "redis")
BROKER_SHARE = 10
TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB", "redis": "Redis"}
TABLE = re.compile(r"(<!-- torture -->\n).*(<!-- end of torture -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Torture:
    messages: int
    seed: int
    kills: int
    server: Server
    redis: str
    folder: Path

    @asynccontextmanager
    async def stores(self, url: str) -> AsyncIterator[Stores]:
        engine, redis = connect(url), MortalRedis.from_url(self.redis)
        try:
            await prepare(engine)
            yield Stores(engine, redis)
        finally:
            await engine.dispose()
            await redis.aclose()

    async def at(self, store: str, url: str, kinds: list[type[Strategy]]) -> list[Outcome]:
        workers = WORKERS_SQLITE if url.startswith("sqlite") else WORKERS
        outcomes = []
        async with self.stores(url) as stores:
            for i, kind in enumerate(kinds):
                for deaths in (True, False) if kind is InMemory else (True,):
                    strategy = kind(stores, f"{store}-{i}-{deaths:d}-s")
                    outcome = await simulate(
                        strategy,
                        self.messages,
                        self.seed,
                        workers=workers,
                        store=TITLES[store],
                        deaths=deaths,
                    )
                    outcomes.append(told(outcome))
                if not self.kills:
                    continue
                outcome = await with_kills(
                    kind(stores, f"{store}-{i}-k"),
                    max(1, self.messages // BROKER_SHARE),
                    self.seed,
                    self.kills,
                    server=self.server,
                    urls=(url, self.redis),
                    store=TITLES[store],
                    folder=self.folder,
                )
                outcomes.append(told(outcome))
        return outcomes


def told(outcome: Outcome) -> Outcome:
    text = (
        f"{outcome.strategy}, {outcome.store}, {outcome.delivery}: "
        f"{outcome.deliveries} deliveries, "
        f"{outcome.deaths} deaths, {outcome.duplicates} duplicates in {outcome.seconds} s: "
        f"{outcome.failure or 'as promised'}"
    )
    print(text, file=sys.stderr, flush=True)
    return outcome


def run(arguments: argparse.Namespace) -> list[Outcome]:
    wanted = arguments.only.split(",")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(standalone(folder, {"POPMQ_PROXY_INVISIBLE_MS_MIN": "50"}))
        redis = stack.enter_context(servers.redis_server())
        torture = Torture(
            arguments.messages, arguments.seed, arguments.kills, server, redis, folder
        )
        sqlite = f"sqlite+aiosqlite:///{folder}/torture.db"
        once = "postgres"
        for store in (store for store in STORES if store in wanted):
            kinds = [*SQL, *ONCE] if store == once else SQL
            match store:
                case "redis":
                    url, kinds = sqlite, REDIS
                case "sqlite":
                    url = sqlite
                case "postgres":
                    url = stack.enter_context(servers.postgres())
                case _:
                    url = stack.enter_context(servers.mariadb())
            outcomes += asyncio.run(torture.at(store, url, kinds))
    return outcomes


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
    outcomes = run(arguments)
    if arguments.json:
        print(json.dumps([outcome.as_json() for outcome in outcomes], indent=1))
    else:
        print(table(outcomes))
    if arguments.write:
        text = arguments.write.read_text()
        made = table(outcomes)
        arguments.write.write_text(TABLE.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text))
    failures = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failures:
        name = f"{outcome.strategy}, {outcome.store}, {outcome.delivery}"
        print(f"{name}: {outcome.failure} (seed {arguments.seed})", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
