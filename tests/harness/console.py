"""A console before a cluster that is made up, or before a real one; asked as a browser asks."""

import html
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import httpx

from popmq._core.signature import Headers
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.process.clock import Clock, SystemClock
from popmq_console.app import application, made_console
from popmq_console.config import ConsoleConfig
from popmq_console.reading.calls import CallFailed, ClusterCalls, Failure
from popmq_console.visit import Console

BASE = "http://127.0.0.1:8082"
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "rect", "source", "wbr"}


class FakeCluster(ClusterCalls):
    """Answers by RPC: a message, or what makes one of the request. An RPC without is not known."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {"TestAccess": admin.TestAccessResponse(), **answers}
        self.asked: list[tuple[str, Any, Headers]] = []
        self.address = "127.0.0.1:8081"

    async def close(self) -> None: ...

    async def ask(self, rpc: str, request: Any, headers: Headers, timeout_s: float = 0) -> Any:
        self.asked.append((rpc, request, headers))
        found = self.answers.get(rpc)
        if found is None:
            raise CallFailed(Failure.DENIED, f"no right for {rpc}")
        if isinstance(found, Exception):
            raise found
        return found(request, headers) if isinstance(found, Callable) else found  # type: ignore[arg-type]

    def times(self, rpc: str) -> int:
        return sum(one == rpc for one, _, _ in self.asked)


@dataclass
class Browser:
    http: httpx.AsyncClient
    console: Console
    page: str = ""
    """The last one."""
    visited: list[str] = field(default_factory=list)

    async def get(self, path: str, code: int = 200, **headers: str) -> str:
        response = await self.http.get(path, headers=headers)
        assert response.status_code == code, (path, response.status_code, response.text[-2_000:])
        self.page = response.text
        if response.headers["content-type"].startswith("text/html"):
            check_html(response.text)
        return self.page

    async def post(self, path: str, code: int = 303, **form: Any) -> httpx.Response:
        """With the token of the last page that has one."""
        data = {"token": self.token, **form}
        response = await self.http.post(path, data=data)
        assert response.status_code == code, (path, response.status_code, response.text[-2_000:])
        if response.headers.get("content-type", "").startswith("text/html"):
            self.page = response.text
            check_html(response.text)
        return response

    @property
    def token(self) -> str:
        found = re.search(r'name="token" value="([0-9a-f]+)"', self.page)
        return found[1] if found else ""

    @property
    def text(self) -> str:
        """What a reader sees, roughly."""
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", self.page)))


@asynccontextmanager
async def browsing(
    calls: ClusterCalls | None = None, clock: Clock | None = None, base: str = BASE, **settings: Any
) -> AsyncIterator[Browser]:
    """`calls` None: to the endpoint of the settings."""
    config = ConsoleConfig(**{"endpoint": "127.0.0.1:8081", **settings})
    clock = clock or SystemClock()
    console = made_console(config, clock)
    if calls is not None:
        await console.calls.close()
        console.calls = calls
    transport = httpx.ASGITransport(application(console, clock))
    try:
        async with httpx.AsyncClient(transport=transport, base_url=base) as http:
            yield Browser(http, console)
    finally:
        await console.calls.close()


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if len(given) != len(attrs):
            self.wrong.append(f"<{tag}> has an attribute twice")
        if tag == "script" and "src" not in given:
            self.wrong.append("a script in the page")
        if tag == "style" or "style" in given:
            self.wrong.append(f"a style in the page: <{tag}>")
        self.wrong += [f"<{tag} {name}>" for name in given if name.startswith("on")]
        for name in ("href", "src", "action"):
            value = given.get(name) or ""
            if re.match(r"(?i)\s*(https?:|javascript:|data:|//)", value):
                self.wrong.append(f"<{tag} {name}={value!r}> leads elsewhere")
        if identity := given.get("id"):
            if identity in self.ids:
                self.wrong.append(f"the id {identity} is there twice")
            self.ids.add(identity)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")


def check_html(page: str) -> None:
    """Tags are closed in order; no script, style or handler is in the page, nothing leads away."""
    checker = _Checker()
    checker.feed(page)
    checker.close()
    assert checker.wrong == [], checker.wrong[:5]
    assert checker.open == [], checker.open
