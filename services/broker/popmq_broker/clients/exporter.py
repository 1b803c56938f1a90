"""The process that writes a snapshot: python -m popmq_pipelines.export.export_process

It is another one so that reading millions of records costs the broker's event loop nothing, has
a low priority, and brings pyarrow, which a broker does without. The order goes in on stdin;
progress and result come back on stdout, JSON documents one a line (its module's docstring).
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import IO, Any, Final, NamedTuple

MODULE: Final = "popmq_pipelines.export.export_process"
COMPLAINT_BYTES_MAX: Final = 2_000
"""Of what it wrote to stderr, kept to tell why it died."""
Result = dict[str, Any]
Exporter = Callable[[str, Callable[[int], None]], Awaitable[Result]]
"""Gets the order, and whom to tell how many rows were read so far."""


async def run(order: str, tell: Callable[[int], None]) -> Result:
    """The last document: the result, or {"failed": text}. A task that is cancelled kills it."""
    loop = asyncio.get_running_loop()
    started = await asyncio.to_thread(_start)

    def tell_loop(rows: int) -> None:
        loop.call_soon_threadsafe(tell, rows)

    work = asyncio.ensure_future(asyncio.to_thread(_follow, started, order, tell_loop))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        started.process.kill()
        await work
        raise


class _Started(NamedTuple):
    process: "subprocess.Popen[bytes]"
    complaints: IO[bytes]
    """What it writes to stderr."""


def _start() -> _Started:
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `_follow` closes it
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
    )
    return _Started(process, complaints)


def _follow(started: _Started, order: str, tell: Callable[[int], None]) -> Result:
    result: Result | None = None
    with started.complaints, started.process as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it has died already; below is why
            process.stdin.write(order.encode())
            process.stdin.close()
        for line in process.stdout:
            told = json.loads(line)
            if told.keys() == {"rows"}:
                tell(int(told["rows"]))
            else:
                result = told
        code = process.wait()
        if result is not None:
            return result
        size_bytes = started.complaints.seek(0, 2)
        started.complaints.seek(max(0, size_bytes - COMPLAINT_BYTES_MAX))
        complaint = started.complaints.read().decode(errors="replace").strip()
    return {"failed": f"the exporter ended with code {code}: {complaint[-COMPLAINT_BYTES_MAX:]}"}
