"""`python -m rocketmq_store.fixture FILE`: a small directory written by Apache RocketMQ, packed.

Messages with tags, keys and message groups, delayed ones, transactions of each fate, leases that
are acked, that ended, and that live. What tests read of it is in the archive: CommitLog, queues,
tables, checkpoint.
"""

import asyncio
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketmq_store import mix
from rocketmq_store.exchange import SEED, Exchange, consume, everything, special
from rocketmq_store.theirs import Missing, check_prerequisites, compile_judge, rocketmq

MESSAGES: Final = 600
BODY_BYTES_MAX: Final = 12
"""Random bytes do not become smaller."""
PACKED: Final = ("commitlog", "consumequeue", "config", "checkpoint")


def write(folder: Path) -> Path:
    """Returns the directory, of a broker that was stopped."""
    exchange = Exchange(folder, compile_judge(folder / "classes"), MESSAGES)
    items = [
        replace(
            item,
            size=min(item.size, BODY_BYTES_MAX),
            zip=False,
            properties={"number": str(item.number)},
        )
        for item in mix.items(MESSAGES, SEED)
    ]
    directory = folder / "broker"
    directory.mkdir()
    with rocketmq(folder / "home", directory, exchange.classes, with_proxy=True) as server:
        server.set_up(everything())
        lines = [item.line() for item in items] + special(items, MESSAGES)
        server.write(lines, exchange.pool_path)
        asyncio.run(consume(server.endpoint, MESSAGES, rejects=False))
    return directory


def main(target: Path) -> int:
    try:
        check_prerequisites()
    except Missing as missing:
        print(f"make rocketmq-fixture: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="popmq-rocketmq-fixture-") as folder:
        directory = write(Path(folder))
        command = ["tar", "--sparse", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]
        command += ["-C", str(directory), "-cJf", str(target), *PACKED]
        subprocess.run(command, check=True)
    print(f"{target}: {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
