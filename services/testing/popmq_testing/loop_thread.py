"""An event loop in a thread of its own: tests may be async or not, and may block."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
CALL_SECONDS_MAX: Final = 30.0
"""A call that takes longer is a bug, here or in the machine."""


class LoopThread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="popmq-testing", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = CALL_SECONDS_MAX) -> T:
        """Run it there and wait here. Raises what it raises, and `TimeoutError`."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_SECONDS_MAX)
