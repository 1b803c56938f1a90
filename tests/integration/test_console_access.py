"""The console before a server with users: each may do there what its policies say."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from harness.console import Browser, browsing
from integration.served import OPERATOR, SECRET, serving_users

from popmq import Client, Credentials


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[tuple[str, Browser]]:
    async with (
        serving_users(tmp_path) as endpoint,
        browsing(endpoint=endpoint) as browser,
    ):
        yield endpoint, browser


async def log_in(browser: Browser, user: str, secret: str) -> None:
    browser.http.cookies.clear()
    await browser.get("/login")
    await browser.post("/login", user=user, secret=secret)


async def test_users_are_made_and_may_what_their_policies_say(
    secured: tuple[str, Browser],
) -> None:
    endpoint, browser = secured
    await log_in(browser, OPERATOR, SECRET)
    await browser.get("/topics")
    await browser.post("/topics", name="orders", type="NORMAL", queues="1")
    await browser.get("/access")
    made = await browser.post("/access/users", 200, name="alice", type="NORMAL")
    secret = re.search(r'class="secret">([^<]+)<', made.text)
    assert secret is not None
    await browser.get("/access")
    assert secret[1] not in browser.page
    entry: dict[str, Any] = {"user": "alice", "decision": "Allow", "policy": "Custom", "ips": ""}
    await browser.post("/access/entry", **entry, resource="Topic:orders", action=["Pub"])
    await browser.get("/access?user=alice&action=Pub&resource=Topic:orders")
    assert "allowed" in browser.text
    assert "Allow of Topic:orders" in browser.text
    await browser.get("/access?user=alice&action=Get&resource=Topic:orders")
    assert "denied" in browser.text
    async with Client(endpoint, credentials=Credentials("alice", secret[1])) as client:
        receipt = await client.send("orders", b"not for alice", keys=["k"])

    await log_in(browser, "alice", secret[1])
    await browser.get("/topics/orders", 403)
    await browser.get(f"/message?id={receipt.message_id}&topic=orders", 403)
    assert "not for alice" not in browser.page
    await browser.get("/access?action=Pub&resource=Topic:orders")
    assert "alice allowed" in browser.text
    await browser.get("/access?user=operator&action=Pub&resource=Topic:orders", 403)
    await browser.get("/cluster", 403)
    await browser.get("/login")
    await browser.post("/access/users", 403, name="mallory", type="SUPER")
    await browser.get("/login")
    await browser.post("/topics/orders/delete", 403, name="orders")


async def test_with_get_on_the_topic_bodies_are_shown(secured: tuple[str, Browser]) -> None:
    endpoint, browser = secured
    async with Client(endpoint, credentials=Credentials(OPERATOR, SECRET)) as client:
        await client.admin.create_topic("orders", queues=1)
        receipt = await client.send("orders", b"for readers")
    await log_in(browser, OPERATOR, SECRET)
    await browser.get("/access")
    made = await browser.post("/access/users", 200, name="reader", type="NORMAL")
    secret = re.search(r'class="secret">([^<]+)<', made.text)
    assert secret is not None
    await browser.get("/access")
    entry: dict[str, Any] = {"user": "reader", "decision": "Allow", "policy": "Custom", "ips": ""}
    await browser.post("/access/entry", **entry, resource="Topic:orders", action=["Get"])
    await log_in(browser, "reader", secret[1])
    await browser.get("/topics/orders")
    assert "for readers" in browser.text
    assert "Send a message" not in browser.page
    await browser.get(f"/message?id={receipt.message_id}&topic=orders")
    assert "for readers" in browser.text
    await browser.post("/topics/orders/send", 400, body="not allowed")
    found = await browser.http.get("/search", params={"q": "orders"})
    assert found.headers["location"] == "/topics/orders"


async def test_a_disabled_user_is_out_at_once(secured: tuple[str, Browser]) -> None:
    _, browser = secured
    await log_in(browser, OPERATOR, SECRET)
    await browser.get("/access")
    made = await browser.post("/access/users", 200, name="alice", type="SUPER")
    secret = re.search(r'class="secret">([^<]+)<', made.text)
    assert secret is not None
    operators = browser.http.cookies["popmq_console"]
    await log_in(browser, "alice", secret[1])
    await browser.get("/topics")
    alices = browser.http.cookies["popmq_console"]
    browser.http.cookies.clear()
    browser.http.cookies.set("popmq_console", operators)
    await browser.get("/access/user/alice?how=disable")
    await browser.post("/access/user/disable", user="alice", name="alice")
    browser.console.answers.forget(next(reversed(browser.console.sessions._sessions)))
    browser.http.cookies.clear()
    browser.http.cookies.set("popmq_console", alices)
    assert (await browser.http.get("/topics")).headers["location"].startswith("/login")


async def test_a_wrong_secret_opens_nothing(secured: tuple[str, Browser]) -> None:
    _, browser = secured
    await browser.get("/login")
    await browser.post("/login", 403, user=OPERATOR, secret="wrong")
    assert "not known to the cluster" in browser.text
    assert (await browser.http.get("/topics")).status_code == 303
