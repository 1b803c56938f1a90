"""Waiting calls whose client may have gone without a word, asked about now and then.

Each is asked every `EACH_S`, but never more than `A_SECOND_MAX` a second: one question costs some
50 µs, so ten thousand waiting polls take 2 % of a core. A call that is not asked in time ends with
its own poll time, and what it was given meanwhile comes back when its answer cannot leave.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

EACH_S = 5.0
STEP_S = 0.25
A_SECOND_MAX = 400
Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class Vigil:
    def __init__(self) -> None:
        self._waiting: OrderedDict[asyncio.Task[Any], tuple[float, Receive]] = OrderedDict()
        """By when they are to be asked next."""

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def over(self, receive: Receive) -> Iterator[None]:
        """While inside, the current task is cancelled when its client is found to be gone."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = (asyncio.get_running_loop().time() + EACH_S, receive)
        try:
            yield
        finally:
            self._waiting.pop(task, None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            if not self._waiting:
                self._waiting.clear()  # a table for thousands would stay as large as it was
            await self.ask(asyncio.get_running_loop().time())

    async def ask(self, now_s: float) -> None:
        """Those whose turn it is."""
        for _ in range(int(A_SECOND_MAX * STEP_S)):
            if not self._waiting:
                return
            task, (ask_s, receive) = next(iter(self._waiting.items()))
            if ask_s > now_s:
                return
            self._waiting[task] = (now_s + EACH_S, receive)
            self._waiting.move_to_end(task)
            event = await receive()
            if event["type"] == "http.disconnect" and task in self._waiting:
                del self._waiting[task]
                task.cancel()
