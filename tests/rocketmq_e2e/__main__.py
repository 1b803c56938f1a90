"""`python -m rocketmq_e2e CHECKOUT [--only tls,plain] [--tests PATTERN] [--keep FOLDER]`: Apache
RocketMQ's end-to-end suite for clients against a nameserver, two brokers and two proxies.

Topics and groups are made at one proxy, clients use the other one. Prints which tests failed and
why that is expected; ends with 1 when another one failed, with 2 when the suite did not run.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from harness.processes import cluster
from rocketmq_e2e import expected, suite
from rocketmq_e2e.remoting import remoting_admin

SETTINGS = {
    "POPMQ_PROXY_CREATE_TOPICS": "false",
    "POPMQ_PROXY_DELAY_MS_MAX": "86400000",
}
"""As the suite expects: no topic is made by its first message, and a day is the longest delay."""


async def _run(folder: Path, checkout: Path, kind: str, tests: str) -> suite.Outcomes:
    target = folder / kind
    target.mkdir(parents=True)
    with cluster(target, SETTINGS) as server:
        endpoint = server.tls_endpoint if kind == "tls" else server.endpoint
        async with remoting_admin(server.other_endpoint) as admin:
            return await suite.run(checkout, kind, endpoint, admin, target / "maven", tests)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rocketmq_e2e", description=__doc__)
    parser.add_argument("checkout", type=Path, help="of apache/rocketmq-e2e")
    parser.add_argument("--only", default=",".join(suite.PROFILES), help="kinds of connections")
    parser.add_argument("--tests", default="", help="some tests, as Maven's -Dtest names them")
    parser.add_argument("--keep", type=Path, help="a folder for logs and reports")
    asked = parser.parse_args()
    if missing := suite.java_missing():
        parser.error(missing)
    return asked


def main() -> int:
    asked = _arguments()
    checkout = asked.checkout.resolve()
    known = expected.load()
    with tempfile.TemporaryDirectory(prefix="popmq-e2e-") as scratch:
        folder = (asked.keep or Path(scratch)).resolve()
        try:
            runs = {
                kind: asyncio.run(_run(folder, checkout, kind, asked.tests))
                for kind in asked.only.split(",")
            }
        except suite.NotRun as failed:
            print(f"make e2e: {failed}", file=sys.stderr)
            return 2
    print(f"apache/rocketmq-e2e at {suite.commit(checkout)}\n")
    print(expected.table(runs, known))
    lines = [
        line
        for kind, found in runs.items()
        for line in expected.wrong(kind, found, known, is_whole=not asked.tests)
    ]
    for line in lines:
        print(f"WRONG {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
