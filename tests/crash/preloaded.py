"""`python -m crash.preloaded`: PopMQ, imported once, forks a broker each time it is told to.

Most of a broker's start is Python's and the imports'. A kill in the middle of a start would nearly
always hit them; of a fork it hits the recovery. One request a line, each answered by one:

    {"start": {variable: value}, "log": path, "fault": name or null}    the broker's pid
    "poll"      null while it runs, else its exit status, negative for a signal
    "kill"      the exit status, after kill -9
"""

import gc
import json
import os
import signal
import sys
import traceback
from contextlib import ExitStack
from typing import Any

from crash.faults import FAULTS

import popmq_cli.servers.run_broker
from popmq_cli.main import main


def _become_broker(request: dict[str, Any]) -> None:
    """Never returns."""
    status = 1
    try:
        out = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, target in ((0, null), (1, out), (2, out)):
            os.dup2(target, number)
        os.environ.update(request["start"])
        with ExitStack() as planted:
            if request["fault"]:
                planted.enter_context(FAULTS[request["fault"]]())
            main(["broker"], standalone_mode=False)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _status(pid: int, options: int) -> int | None:
    found, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if found else None


def serve() -> None:
    assert popmq_cli.servers.run_broker, "loaded before the first fork"
    gc.collect()
    gc.freeze()
    pid, status = 0, None
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None
        if request == "poll":
            answer = status = status if status is not None else _status(pid, os.WNOHANG)
        elif request == "kill":
            if status is None:
                os.kill(pid, signal.SIGKILL)
                status = _status(pid, 0)
            answer = status
        else:
            pid = os.fork()
            if not pid:
                _become_broker(request)
            answer, status = pid, None
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
