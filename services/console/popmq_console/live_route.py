"""/live/…: the live part of the page at that address, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from popmq_common.process.clock import Clock
from popmq_console.guard.tokens import visitor_of
from popmq_console.live.events import END, FAILED, LIVE, event, live_part
from popmq_console.live.live_pages import LivePages, TooManyStreams
from popmq_console.routes import Route
from popmq_console.screening import COOKIE, answered
from popmq_console.visit import Console, Visit

PREFIX: Final = "/live"
READ_S: Final = 20.0
"""That a page may take."""
HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""The second is for nginx, which would hold events back."""


def streamed(
    console: Console, clock: Clock, pages: LivePages, route: Route
) -> Callable[[Request], Awaitable[Response]]:
    """Of a route whose page has a live part."""

    async def answer(request: Request) -> Response:
        visitor_id = visitor_of(console.key, request.cookies.get(COOKIE, ""))
        if not visitor_id:
            return PlainTextResponse("Load the page first.\n", 401)
        page = _page_request(request, console.config.path_prefix)
        visit = Visit(console, page, visitor_id, clock.now_ms())

        async def read() -> bytes:
            return await _read(Visit(console, page, visitor_id, clock.now_ms()), route)

        address = f"{page.url.path}?{page.url.query}"
        key = visit.who, address
        try:
            pages.check(key, visitor_id)
        except TooManyStreams as refused:
            text = f"{refused}: ask for the page instead.\n"
            return PlainTextResponse(text, 503, {"retry-after": "60"})

        async def events() -> AsyncIterator[bytes]:
            try:
                async with pages.stream(key, visitor_id, route.live_s, read) as stream:
                    async for one in stream.events():
                        yield one
            except TooManyStreams as refused:  # since the check
                yield event(END, str(refused))

        return StreamingResponse(events(), media_type="text/event-stream", headers=HEADERS)

    return answer


def _page_request(request: Request, prefix: str) -> Request:
    """As a browser asks for the live part of that page."""
    path = prefix + request.scope["path"].removeprefix(prefix + PREFIX)
    scope: dict[str, Any] = {
        **request.scope,
        "path": path,
        "raw_path": path.encode(),
        "headers": [*request.scope["headers"], (b"hx-request", b"true")],
    }
    return Request(scope)


async def _read(visit: Visit, route: Route) -> bytes:
    """An event of what the page shows now."""
    try:
        async with asyncio.timeout(READ_S):
            response = await answered(visit, route)
    except TimeoutError:
        return event(FAILED, f"the page took longer than {READ_S:.0f} s")
    if response.status_code == 401:
        return event(END, "log in again")
    part = live_part(bytes(response.body).decode())
    if response.status_code != 200 or part is None:
        return event(FAILED, f"the page answers {response.status_code}")
    return event(LIVE, part)
