"""How often is a page read, for how many, and when does it end?"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from popmq_console.live import live_pages as it
from popmq_console.live.events import END, LIVE, event
from popmq_console.live.live_pages import LivePages, LiveStream, TooManyStreams

KEY = ("", "/topics?")
BEAT = event("beat")
SOON_S = 5


class Reading:
    """Of a page; it answers when it is told to."""

    def __init__(self) -> None:
        self.count = 0
        self.answers: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    async def __call__(self) -> bytes:
        self.count += 1
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def pages() -> AsyncIterator[LivePages]:
    made = LivePages()
    yield made
    await made.close()


async def following(stream: LiveStream, **bounds: float) -> list[bytes]:
    async with asyncio.timeout(SOON_S):
        return [one async for one in stream.events(**bounds)]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_who_look_share_one_reading(pages: LivePages) -> None:
    reading, other = Reading(), Reading()
    async with (
        pages.stream(KEY, "v1", 0, reading) as first,
        pages.stream(KEY, "v2", 0, other) as second,
    ):
        assert (pages.stream_count, pages.page_count) == (2, 1)
        tasks = [asyncio.create_task(following(one)) for one in (first, second)]
        reading.answers.put_nowait(event(LIVE, "1"))
        await turns()
        reading.answers.put_nowait(event(END, "log in again"))
        for found in await asyncio.gather(*tasks):
            assert found == [BEAT, event(LIVE, "1"), event(END, "log in again")]
        assert (reading.count, other.count) == (2, 0)
        assert pages.page_count == 0
    assert pages.stream_count == 0


async def test_nobody_looks_and_nothing_is_read(pages: LivePages) -> None:
    reading = Reading()
    async with pages.stream(KEY, "v", 0, reading):
        await turns()
    count = reading.count
    await turns()
    assert (reading.count, pages.page_count, pages.stream_count) == (count, 0, 0)
    async with pages.stream(KEY, "v", 0, reading):
        await turns()
        assert reading.count == count + 1


async def test_who_reads_slowly_gets_the_newest_alone(pages: LivePages) -> None:
    stream = LiveStream()
    events = stream.events()
    assert await anext(events) == BEAT
    for number in range(3):
        stream.put(event(LIVE, str(number)))
    assert await anext(events) == event(LIVE, "2")
    stream.put(event(END, "log in again"))
    stream.end()
    assert [one async for one in events] == [event(END, "log in again")]


async def test_a_silent_stream_beats_and_ends_in_time() -> None:
    found = await following(LiveStream(), beat_s=0.01, stream_s=0.05)
    assert set(found) == {BEAT}
    assert 2 <= len(found) <= 7


async def test_a_bug_in_a_page_ends_its_streams(pages: LivePages) -> None:
    reading = Reading()
    async with pages.stream(KEY, "v", 0, reading) as stream:
        task = pages._pages[KEY].task
        reading.answers.put_nowait(RuntimeError("bug"))
        assert await following(stream) == [BEAT]
        with pytest.raises(RuntimeError, match="bug"):
            await task


async def test_streams_end_when_the_console_stops(pages: LivePages) -> None:
    async with pages.stream(KEY, "v", 0, Reading()) as stream:
        task = asyncio.create_task(following(stream))
        await turns()
        await pages.close()
        assert await task == [BEAT]
        with pytest.raises(TooManyStreams, match="stops"):
            pages.check(KEY, "v")


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("STREAMS_MAX", "2 live pages are open"),
        ("STREAMS_OF_VISITOR_MAX", "you have 2"),
        ("PAGES_MAX", "2 different pages"),
    ],
)
async def test_streams_and_pages_are_bounded(
    pages: LivePages, monkeypatch: pytest.MonkeyPatch, limit: str, why: str
) -> None:
    monkeypatch.setattr(it, limit, 2)
    async with (
        pages.stream(("", "1"), "v", 0, Reading()),
        pages.stream(("", "2"), "v", 0, Reading()),
    ):
        with pytest.raises(TooManyStreams, match=why):
            async with pages.stream(("", "3"), "v", 0, Reading()):
                raise AssertionError("it is one too many")
    async with pages.stream(("", "3"), "v", 0, Reading()):
        assert pages.stream_count == 1
