"""`python -m rocketmq_store MESSAGES`: Apache RocketMQ's broker reads our files, and the reverse.

See docs/formats.md, "Beside Apache RocketMQ's broker". Ends with 1 at the first difference, and
leaves its folder then.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from rocketmq_store import turns
from rocketmq_store.compare import Different
from rocketmq_store.exchange import Exchange, ours_to_theirs, theirs_to_ours
from rocketmq_store.rebuild import rebuilt_by_rocketmq
from rocketmq_store.theirs import Missing, check_prerequisites, compile_judge

STAGES: dict[str, Callable[[Exchange], Awaitable[None]]] = {
    "ours": ours_to_theirs,
    "rebuild": rebuilt_by_rocketmq,
    "theirs": partial(theirs_to_ours, killed=False),
    "killed": partial(theirs_to_ours, killed=True),
    "turns-ours": turns.ours_first,
    "turns-theirs": turns.theirs_first,
}


async def _run(stage: Callable[[Exchange], Awaitable[None]], exchange: Exchange) -> None:
    await stage(exchange)


def main(count: int, stages: list[str]) -> int:
    try:
        check_prerequisites()
    except Missing as missing:
        print(f"make rocketmq-store: {missing}", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="popmq-rocketmq-store-"))
    classes = compile_judge(folder / "classes")
    began = time.monotonic()
    for name in stages:
        print(f"\n{name}: {count} messages", flush=True)
        try:
            asyncio.run(_run(STAGES[name], Exchange(folder / name, classes, count)))
        except Different as wrong:
            print(f"DIFFERENT  {wrong}\nThe files are in {folder}", file=sys.stderr)
            return 1
        shutil.rmtree(folder / name)
    shutil.rmtree(folder)
    print(f"\nall agree, after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:] or list(STAGES)))
