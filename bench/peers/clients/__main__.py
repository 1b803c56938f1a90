"""`python -m peers.clients END KIND PORT NUMBER`: a client process that does what it reads.

Each line of standard input is a JSON list, the name of a call and its arguments by name; each line
of standard output is a JSON object, its result.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from peers.clients.end import End
from peers.clients.load import Process

FIRST_TRIED_S = 60.0


async def first(end: End, make: Callable[[], End], place: str) -> End:
    """Tries until a message is confirmed; a server that starts may refuse a while."""
    until = time.monotonic() + FIRST_TRIED_S
    while True:
        try:
            await end.create(place)
            await end.open(place)
            await end.send(b"first")
            return end
        except Exception:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.02)
            end = make()


async def work(make: Callable[[], End], number: int) -> None:
    loop = asyncio.get_running_loop()
    end = make()
    process = Process(end, number)
    print("{}", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        call, arguments = json.loads(line)
        done: dict[str, Any] = {}
        try:
            if call == "first":
                end = await first(end, make, **arguments)
                process = Process(end, number)
            elif call in ("create", "open"):
                await getattr(end, call)(**arguments)
            else:
                done = await getattr(process, call)(**arguments)
        except Exception as failed:
            done = {"failed": f"{call}: {type(failed).__name__}: {failed}"}
        print(json.dumps(done), flush=True)
    await end.close()


def main(client: str, kind: str, port: str, number: str) -> None:
    module = import_module(f"peers.clients.{client}_end")
    made = getattr(module, f"{client.capitalize()}End")
    asyncio.run(work(lambda: made(int(port), kind), int(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
