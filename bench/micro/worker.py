"""One side of a comparison: a process that measures what it is told.

A line of standard input is a count of messages; the answer is the microseconds of CPU time of one,
or with the second argument `bytecodes` how many of these are executed, by functions, as JSON.
"""

import asyncio
import gc
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from micro.bytecodes import BytecodeCounter
from micro.cases import CASES
from micro.instructions import LISTENERS

SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None


async def _serve(name: str, counter: BytecodeCounter | None) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # log lines go elsewhere
    folder = Path(tempfile.mkdtemp(dir=SHM, prefix="popmq-micro-"))
    loop = asyncio.get_running_loop()
    try:
        async with CASES[name](folder / "data") as case:
            gc.freeze()
            gc.disable()  # as rare in a server that runs for long
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                found = await case.round(int(line))
                answer = json.dumps(counter.take()) if counter else found
                print(answer, flush=True, file=answers)
                gc.collect()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    run = asyncio.run if sys.argv[1].startswith("sdk") else uvloop.run  # as their users do
    counter = BytecodeCounter() if sys.argv[2:] == ["bytecodes"] else None
    if counter:
        LISTENERS.append(counter.at_mark)
    run(_serve(sys.argv[1], counter))
