"""Chromium before a console before a real server; a message in the browser's console fails a
test."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from integration.served import serving
from playwright.async_api import Browser, Page, async_playwright

from popmq import Client
from popmq_common.process.clock import SystemClock
from popmq_console.app import console
from popmq_console.config import ConsoleConfig

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chrome")
WIDTHS = (1_440, 800, 380)
SCHEMES = ("light", "dark")


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(tmp_path) as one:
        yield one


@pytest.fixture
async def client(endpoint: str) -> AsyncIterator[Client]:
    async with Client(endpoint, credentials=False) as one:
        yield one


@pytest.fixture
async def url(endpoint: str) -> AsyncIterator[str]:
    async with console(ConsoleConfig(endpoint=endpoint, port=0), SystemClock()) as serving_console:
        yield serving_console.url.rstrip("/")


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    assert CHROMIUM, "apt-get install chromium, or name one in CHROMIUM"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(
    browser: Browser, *, width: int = 1_440, scheme: str = "light", zone: str = "Asia/Kolkata"
) -> AsyncIterator[Page]:
    """A tab of a new browser, elsewhere than in UTC."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        timezone_id=zone,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = await context.new_page()
    told: list[str] = []
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on(
        "console",
        lambda message: (
            told.append(message.text)
            if message.type in ("error", "warning")
            and "Failed to load resource" not in message.text
            else None
        ),
    )
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("http://127.0.0.1", "data:"))
            else told.append(f"asked {request.url}")
        ),
    )
    yield page
    await context.close()
    assert told == []


@pytest.fixture
async def page(chromium: Browser) -> AsyncIterator[Page]:
    async with opened(chromium) as one:
        yield one
