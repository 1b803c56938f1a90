"""What a mask hides is on no page and in no file, and no filter finds it out."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from harness.console import Browser, browsing
from integration.served import serving

from popmq import Client
from popmq_console.reading.masks import read_masks

FILE = '[[mask]]\ntopics = ["orders"]\nbody = ["$.card"]\nproperties = ["phone"]\n'
SECRETS = ("card-no-4711", "call-0123")
"""No id and no port of the page can look like these."""


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[tuple[Browser, Client]]:
    file = tmp_path / "masks.toml"
    file.write_text(FILE)
    async with (
        serving(tmp_path / "data") as endpoint,
        Client(endpoint, credentials=False) as client,
        browsing(endpoint=endpoint, masks=read_masks(file)) as browser,
    ):
        await client.admin.create_topic("orders", queues=1)
        await client.admin.create_group("g", start="first", max_attempts=1)
        body = b'{"card": "card-no-4711", "id": 17}'
        await client.send("orders", body, keys=["k"], properties={"phone": "call-0123"})
        (message,) = await client.receive("orders", "g", wait_s=2)
        await client.nack(message, reason="no money")
        yield browser, client


async def test_no_page_and_no_file_shows_it(places: tuple[Browser, Client]) -> None:
    browser, _ = places
    topic = await browser.get("/topics/orders")
    assert "17" in topic
    for path in (
        "/topics/orders",
        "/topics/orders?key=k",
        "/message?topic=orders&at=broker-a:0:0",
        "/message?topic=%25DLQ%25g&at=broker-a:0:0",
        "/dead-letters/g",
        "/dead-letters/g/export?as=csv",
        "/dead-letters/g/export?as=json",
        "/search?q=k",
    ):
        shown = await browser.get(path)
        assert not any(secret in shown for secret in SECRETS), path
    assert "***" in await browser.get("/message?topic=orders&at=broker-a:0:0")
    assert "***" in await browser.get("/dead-letters/g/export?as=json")
    assert "--mask-file" in await browser.get("/cluster")


@pytest.mark.parametrize("topic", ["orders", "%25DLQ%25g"])
async def test_sql_does_not_tell_what_is_hidden(places: tuple[Browser, Client], topic: str) -> None:
    """It sees the properties as they are, so a visitor could guess them letter by letter."""
    browser, client = places
    await browser.get(f"/topics/{topic}?sql=phone+%3D+%27call-0123%27")
    assert "are masked, so SQL cannot look for them" in browser.text
    assert "1 message of" not in browser.text
    await client.admin.create_topic("open", queues=1)
    await browser.get("/topics/open?sql=phone+IS+NULL")
    assert "masked" not in browser.text


async def test_a_search_does_not_find_what_is_hidden(places: tuple[Browser, Client]) -> None:
    browser, _ = places
    await browser.get("/topics/orders?text=17")
    assert "1 message of 1 looked at" in browser.text
    for secret in SECRETS:
        await browser.get(f"/topics/orders?text={secret}")
        assert "None of the 1 message looked at fits" in browser.text
