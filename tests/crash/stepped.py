"""`python -m crash.stepped`: a process with PopMQ imported, forked for each change to be cut off.

A *step* is a call that changes a file: a write, a sync, a rename, a link, a truncation. The fork
opens a broker, makes one change, tells that it was answered, writes the files of config/, and ends;
or it gets SIGKILL before the step that is asked for, of a write perhaps after half of its bytes.
One request a line, each answered by one:

    {"dir": path, "change": name, "kill_at": 5, "torn": false, "fault": name or null}
    {"told": ["answered", "saved"], "steps": ["pwrite", …], "status": -9}

`kill_at` 0: it is not killed. A change named "start" is the opening itself.
"""

import asyncio
import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from crash.setting_changes import CHANGES, config
from crash.setting_faults import FAULTS

from popmq_broker.app import open_engine
from popmq_common.process import logs
from popmq_common.process.clock import VirtualClock

STEPS: Final = (
    *("pwrite", "fdatasync", "fsync", "replace", "link", "unlink", "ftruncate", "rename"),
)
START: Final = "start"


class Steps:
    def __init__(self, kill_at: int, *, torn: bool) -> None:
        self.names: list[str] = []
        self._kill_at = kill_at
        self._torn = torn

    def watch(self) -> None:
        for name in STEPS:
            setattr(os, name, self._stepped(name, getattr(os, name)))

    def _stepped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*values: Any, **named: Any) -> Any:
            self.names.append(name)
            if len(self.names) == self._kill_at:
                if self._torn and name == "pwrite":
                    number, data, offset = values
                    real(number, data[: len(data) // 2], offset)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*values, **named)

        return stepped


def _life(request: dict[str, Any], out: int) -> None:
    """Never returns."""
    status = 1
    try:
        steps = Steps(request["kill_at"], torn=request["torn"])
        with ExitStack() as planted:
            if request["fault"]:
                planted.enter_context(FAULTS[request["fault"]]())
            asyncio.run(_change(request, steps, lambda text: os.write(out, f"{text}\n".encode())))
        os.write(out, json.dumps(steps.names).encode())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


async def _change(request: dict[str, Any], steps: Steps, tell: Callable[[str], Any]) -> None:
    if request["change"] == START:
        steps.watch()
    broker = await open_engine(config(Path(request["dir"])), VirtualClock())
    if request["change"] != START:
        steps.watch()
        await CHANGES[request["change"]].change(broker)
        tell("answered")
    await broker.catalog.save()
    tell("saved")


def serve() -> None:
    logs.configure("error")
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            _life(json.loads(line), writer)
        os.close(writer)
        with open(reader, "rb") as told:
            lines = told.read().decode().splitlines()
        _, status = os.waitpid(pid, 0)
        steps = json.loads(lines.pop()) if lines and lines[-1].startswith("[") else []
        answer = {"told": lines, "steps": steps, "status": os.waitstatus_to_exitcode(status)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
