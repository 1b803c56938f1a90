"""`python -m rocketmq_store MESSAGES [STAGE …]`: Apache RocketMQ's broker reads our files, and the
reverse.

See docs/formats.md, "Beside Apache RocketMQ's broker". Ends with 1 at the first difference, and
leaves its folder then. Without a stage: all of them; those that mostly wait run beside the others.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

from rocketmq_store import turns
from rocketmq_store.compare import Different
from rocketmq_store.exchange import Exchange, ours_to_theirs, theirs_to_ours
from rocketmq_store.rebuild import rebuilt_by_rocketmq
from rocketmq_store.theirs import Missing, check_prerequisites, compile_judge

Stage = Callable[[Exchange], Coroutine[Any, Any, None]]
BUSY: Final[dict[str, Stage]] = {
    "ours": ours_to_theirs,
    "rebuild": rebuilt_by_rocketmq,
    "theirs": partial(theirs_to_ours, killed=False),
    "killed": partial(theirs_to_ours, killed=True),
}
WAITING: Final[dict[str, Stage]] = {
    "turns-ours": turns.ours_first,
    "turns-theirs": turns.theirs_first,
}


def main(count: int, stages: list[str]) -> int:
    try:
        check_prerequisites()
    except Missing as missing:
        print(f"make rocketmq-store: {missing}", file=sys.stderr)
        return 2
    if stages:
        return _run(count, stages)
    began = time.monotonic()
    command = [sys.executable, "-m", "rocketmq_store", str(count), *WAITING]
    with subprocess.Popen(command) as beside:
        found = _run(count, list(BUSY))
    print(f"all stages took {time.monotonic() - began:.0f} s")
    return found or beside.returncode


def _run(count: int, stages: list[str]) -> int:
    """One after the other."""
    folder = Path(tempfile.mkdtemp(prefix="popmq-rocketmq-store-"))
    classes = compile_judge(folder / "classes")
    for name in stages:
        exchange = Exchange(folder / name, classes, count)
        exchange.tell("begins")
        try:
            asyncio.run({**BUSY, **WAITING}[name](exchange))
        except Different as wrong:
            print(f"DIFFERENT  {name}: {wrong}\nThe files are in {folder}", file=sys.stderr)
            return 1
        exchange.tell("all agrees")
        shutil.rmtree(folder / name)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
