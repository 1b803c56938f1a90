"""Pages that somebody looks at now: each is read once every few seconds, for all who look at it.

Nobody looks: nothing is read. A browser that reads slowly gets the newest state, not all of them.
How many streams and pages there are is bounded; who is too many asks for the page instead.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from popmq_console.live.events import BEAT, END, event

STREAMS_MAX: Final = 200
STREAMS_OF_VISITOR_MAX: Final = 8
PAGES_MAX: Final = 100
"""Different ones at a time: each is a reading of the cluster every few seconds."""
BEAT_S: Final = 15.0
STREAM_S: Final = 600.0
"""Then the browser connects again, and shows anew who it is."""
Read = Callable[[], Awaitable[bytes]]
"""Makes an event of what the page shows now. One that begins with `ENDED` is the last one."""
ENDED: Final = event(END)[:10]
Key = tuple[str, str]
"""Who looks, and at which address."""


class TooManyStreams(Exception):
    """The text says of what."""


@dataclass(slots=True)
class _Page:
    task: "asyncio.Task[None]"
    streams: set["LiveStream"] = field(default_factory=set)


class LiveStream:
    """One browser's; it keeps the newest event alone."""

    def __init__(self) -> None:
        self._newest: bytes | None = None
        self._is_over = False
        self._changed = asyncio.Event()

    def put(self, told: bytes) -> None:
        self._newest = told
        self._changed.set()

    def end(self) -> None:
        self._is_over = True
        self._changed.set()

    async def events(
        self, beat_s: float = BEAT_S, stream_s: float = STREAM_S
    ) -> AsyncIterator[bytes]:
        """Until the stream ends, or has lasted so long."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + stream_s
        yield event(BEAT)  # so that the browser knows at once that there is a stream
        while (left_s := until_s - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(beat_s, left_s)):
                    await self._changed.wait()
            except TimeoutError:
                yield event(BEAT)
                continue
            self._changed.clear()
            newest, self._newest = self._newest, None
            if newest is not None:
                yield newest
            elif self._is_over:
                return
            if self._is_over:
                self._changed.set()  # once more, for what may have come meanwhile


class LivePages:
    def __init__(self) -> None:
        self._pages: dict[Key, _Page] = {}
        self._of_visitor: Counter[str] = Counter()
        self._is_closed = False

    @property
    def stream_count(self) -> int:
        return self._of_visitor.total()

    @property
    def page_count(self) -> int:
        return len(self._pages)

    @asynccontextmanager
    async def stream(
        self, key: Key, visitor: str, every_s: float, read: Read
    ) -> AsyncIterator[LiveStream]:
        """`read` is asked every `every_s`, unless another one's is for the same key. Raises
        `TooManyStreams`."""
        self.check(key, visitor)
        page = self._pages.get(key)
        if page is None:
            task = asyncio.create_task(self._reading(key, every_s, read), name=f"live {key[1]}")
            page = self._pages[key] = _Page(task)
        stream = LiveStream()
        page.streams.add(stream)
        self._of_visitor[visitor] += 1
        try:
            yield stream
        finally:
            self._of_visitor[visitor] -= 1
            if not self._of_visitor[visitor]:
                del self._of_visitor[visitor]
            page.streams.discard(stream)
            if not page.streams:
                self._forget(key, page)

    async def close(self) -> None:
        """All streams end; no new one begins."""
        self._is_closed = True
        pages = list(self._pages.items())
        for key, page in pages:
            for stream in page.streams:
                stream.end()
            self._forget(key, page)
        await asyncio.gather(*(page.task for _, page in pages), return_exceptions=True)

    def check(self, key: Key, visitor: str) -> None:
        """Raises `TooManyStreams` where `stream` would now."""
        if self._is_closed:
            raise TooManyStreams("the console stops")
        if self.stream_count >= STREAMS_MAX:
            raise TooManyStreams(f"{STREAMS_MAX} live pages are open")
        if self._of_visitor[visitor] >= STREAMS_OF_VISITOR_MAX:
            raise TooManyStreams(f"you have {STREAMS_OF_VISITOR_MAX} live pages open")
        if key not in self._pages and len(self._pages) >= PAGES_MAX:
            raise TooManyStreams(f"{PAGES_MAX} different pages are looked at")

    def _forget(self, key: Key, page: _Page) -> None:
        if self._pages.get(key) is page:
            del self._pages[key]
        page.task.cancel()

    async def _reading(self, key: Key, every_s: float, read: Read) -> None:
        """Whatever ends it, also a bug in `read`, ends the streams."""
        page = None
        try:
            while page is None or key in self._pages:
                await asyncio.sleep(every_s)
                told = await read()
                page = self._pages[key]
                for stream in page.streams:
                    stream.put(told)
                if told.startswith(ENDED):
                    return
        finally:
            page = self._pages.pop(key, None)
            for stream in page.streams if page is not None else ():
                stream.end()
