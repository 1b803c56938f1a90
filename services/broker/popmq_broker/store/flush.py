"""Group commit: everything appended since the last fdatasync shares the next one.

One thread does nothing but fdatasync. While it runs, appends gather; when it is done they are
the next batch, so the batch grows with the load and a lone append waits for nobody. A failed
fdatasync ends the process: after it nobody knows what the disk holds.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from popmq_broker.store.commit_log import CommitLog


class Flusher:
    def __init__(
        self,
        log: CommitLog,
        done: Callable[[int, float], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """`done(log_offset, seconds)` runs on the event loop after each fdatasync."""
        self._log = log
        self._done = done
        self._fatal = fatal
        self._loop = asyncio.get_running_loop()
        self._wanted = self._flushed = log.end
        self._closing = False
        self._state = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="popmq-flush", daemon=True)
        self._thread.start()

    def request(self, log_offset: int) -> None:
        """Bring the log to disk up to `log_offset`."""
        with self._state:
            if log_offset > self._wanted:
                self._wanted = log_offset
                self._state.notify()

    def close(self) -> None:
        """Finish what was requested, then end the thread."""
        with self._state:
            self._closing = True
            self._state.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._state:
                while self._wanted == self._flushed and not self._closing:
                    self._state.wait()
                if self._wanted == self._flushed:
                    return
                start, end = self._flushed, self._wanted
            began = time.perf_counter()
            try:
                self._log.sync(start, end)
            except BaseException as failed:
                self._fatal(failed)
                return
            seconds = time.perf_counter() - began
            with self._state:
                self._flushed = end
            try:
                self._loop.call_soon_threadsafe(self._done, end, seconds)
            except RuntimeError:  # the loop has ended; nobody waits any more
                return
