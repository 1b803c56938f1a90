"""Live parts of pages, sent to browsers as they change."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from harness.console import check_html
from integration.served import OPERATOR, SECRET, serving, serving_users

from popmq import Client
from popmq_common.process.clock import SystemClock
from popmq_console import routes
from popmq_console.app import console
from popmq_console.config import ConsoleConfig
from popmq_console.live import live_pages

QUICK_S = 0.05
SOON_S = 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [replace_live(one) for one in routes.ROUTES]
    monkeypatch.setattr("popmq_console.app.ROUTES", found)


def replace_live(route: routes.Route) -> routes.Route:
    return route._replace(live_s=QUICK_S) if route.live_s else route


@asynccontextmanager
async def opened(endpoint: str, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    config = replace(ConsoleConfig(endpoint=endpoint, port=0), **settings)  # type: ignore[arg-type]
    async with (
        console(config, SystemClock()) as served,
        httpx.AsyncClient(base_url=served.url.rstrip("/"), timeout=SOON_S) as http,
    ):
        yield http


async def events(http: httpx.AsyncClient, path: str) -> AsyncGenerator[tuple[str, str]]:
    async with asyncio.timeout(SOON_S), http.stream("GET", path) as response:
        assert response.status_code == 200, path
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert "default-src 'self'" in response.headers["content-security-policy"]
        name, data = "", list[str]()
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name, data = value, []
            elif field == "data":
                data.append(value)
            elif name:
                yield name, "\n".join(data)
                name = ""


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(tmp_path) as one:
        yield one


async def test_what_changes_is_sent_and_its_addresses_are_those_of_the_page(endpoint: str) -> None:
    async with opened(endpoint, path_prefix="/queue") as http, Client(endpoint) as client:
        page = (await http.get("/topics?q=new&sort=-name")).text
        address = re.search(r'data-live="([^"]+)"', page)
        assert address is not None
        live = address[1].replace("&amp;", "&").removeprefix("/queue")
        assert live == "/live/topics?q=new&sort=-name"
        assert "new-topic" not in page
        made = False
        async for name, text in events(http, live):
            if name == "live":
                check_html(text)
                assert text.startswith('<section id="live"')
                if not made:
                    await client.admin.create_topic("new-topic", queues=1)
                    made = True
                elif "new-topic" in text:
                    assert 'href="/queue/topics/new-topic"' in text
                    assert "/live/live" not in text
                    break


async def test_every_page_that_is_live_has_no_token_in_its_live_part(endpoint: str) -> None:
    """All who look share it; a token is one visitor's."""
    async with opened(endpoint) as http, Client(endpoint) as client:
        await client.admin.create_topic("t", queues=1)
        await client.admin.create_group("g")
        receipt = await client.send("t", b"x")
        seen = 0
        for route in routes.ROUTES:
            if not route.live_s:
                continue
            path = route.path.replace("{name}", "g")
            path += f"?id={receipt.message_id}" if path == "/message" else ""
            assert 'data-live="/live' in (await http.get(path)).text, path
            async for name, text in events(http, f"/live{path}"):
                if name != "beat":
                    assert name == "live", (path, text)
                    assert 'name="token"' not in text, path
                    seen += 1
                    break
        assert seen >= 7


async def test_all_who_look_share_one_reading(endpoint: str) -> None:
    async with opened(endpoint) as http:
        await http.get("/cluster")
        streams = [events(http, "/live/cluster") for _ in range(4)]
        found = await asyncio.gather(*(first_live(one) for one in streams))
        assert len(found) == 4
        for one in streams:
            await one.aclose()


async def first_live(stream: AsyncIterator[tuple[str, str]]) -> str:
    async for name, text in stream:
        if name == "live":
            return text
    raise AssertionError("it ended")


async def test_who_has_no_page_gets_no_stream(endpoint: str) -> None:
    async with opened(endpoint) as http:
        assert (await http.get("/live/topics")).status_code == 401
        assert (await http.get("/live/access")).status_code == 404
        await http.get("/topics")
        assert (await http.post("/live/topics")).status_code in (403, 405, 411)


async def test_too_many_streams_are_refused(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_pages, "STREAMS_OF_VISITOR_MAX", 1)
    async with opened(endpoint) as http:
        await http.get("/topics")
        stream = events(http, "/live/topics")
        await first_live(stream)
        refused = await http.get("/live/groups")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "60")
        assert "you have 1 live pages open" in refused.text
        await stream.aclose()


async def test_a_server_that_does_not_answer_is_told(tmp_path: Path) -> None:
    async with AsyncExitStack() as server:
        endpoint = await server.enter_async_context(serving(tmp_path))
        async with opened(endpoint) as http:
            await http.get("/topics")
            stream = events(http, "/live/topics")
            await first_live(stream)
            await server.aclose()
            async for name, text in stream:
                if name == "failed":
                    assert text == "the page answers 502"
                    break


async def test_a_stream_ends_with_the_session(tmp_path: Path) -> None:
    async with serving_users(tmp_path) as endpoint, opened(endpoint) as http:
        page = (await http.get("/login")).text
        token = re.search(r'name="token" value="([0-9a-f]+)"', page)
        assert token is not None
        form = {"token": token[1], "user": OPERATOR, "secret": SECRET}
        answer = await http.post("/login", data=form)
        assert answer.status_code == 303, answer.text
        page = (await http.get("/topics")).text
        token = re.search(r'name="token" value="([0-9a-f]+)"', page)
        assert token is not None
        told: list[str] = []
        async for name, text in events(http, "/live/topics"):
            if name == "live" and "live" not in told:
                await http.post("/logout", data={"token": token[1]})
            told.append(name if name != "end" else text)
        assert "live" in told
        assert told[-1] == "log in again"


async def test_streams_hold_up_no_stop(endpoint: str) -> None:
    async with opened(endpoint) as http:
        await http.get("/topics")
        stream = events(http, "/live/topics")
        await first_live(stream)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 1.5
    await stream.aclose()
