"""The console before a real server: what operators do with it, and what users may not."""

import csv
import io
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from harness.console import Browser, browsing
from integration.served import serving

from popmq import Client


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(tmp_path) as one:
        yield one


@pytest.fixture
async def client(endpoint: str) -> AsyncIterator[Client]:
    async with Client(endpoint, credentials=False) as one:
        yield one


@pytest.fixture
async def browser(endpoint: str) -> AsyncIterator[Browser]:
    async with browsing(endpoint=endpoint) as one:
        yield one


async def test_a_topic_is_made_sent_to_and_looked_at(browser: Browser, client: Client) -> None:
    await browser.get("/topics")
    await browser.post("/topics", name="orders", type="DELAY", queues="2")
    await browser.get("/topics/orders")
    await browser.post(
        "/topics/orders/send",
        body='{"a": 1}',
        tag="new",
        keys="k1 k2",
        properties="shop=north\nlane=3",
        delay="1h",
    )
    await browser.get("/topics/orders")
    assert "To take it back:" in browser.text
    handle = re.search(r"To take it back: (\S+)", browser.text)
    assert handle is not None
    await browser.get("/later")
    await browser.post("/recall", topic="orders", handle=handle[1].rstrip("."))
    await browser.get("/later")
    assert "Taken back" in browser.text
    await browser.get("/topics/orders")
    await browser.post("/topics/orders/send", 400, body="x", delay="soon")
    assert "is no duration" in browser.text


async def test_looking_receives_nothing(browser: Browser, client: Client) -> None:
    await client.admin.create_topic("t", queues=3)
    await client.admin.create_group("g", start="first")
    for number in range(40):
        tag = "odd" if number % 2 else "even"
        await client.send("t", b"body %d" % number, keys=[f"key-{number}"], tag=tag)
    await browser.get("/topics/t")
    assert "25 messages of 25 looked at; there are more." in browser.text
    assert "body 39" in browser.page
    assert "body 14<" not in browser.page
    await browser.get("/topics/t?tag=odd&text=BODY+1")
    assert "body 11" in browser.page
    assert "body 12" not in browser.page
    await browser.get("/topics/t?key=key-7")
    assert "1 message of 1 looked at" in browser.text
    await browser.get("/topics/t?peek=oldest&queue=0")
    assert "body 0<" in browser.page
    assert "body 1<" not in browser.page
    await browser.get("/topics/t?peek=offset&at=12")
    assert "4 messages of 4 looked at" in browser.text
    await browser.get("/topics/t?peek=time&at=1h")
    assert "body 0<" in browser.page
    await browser.get("/topics/t?peek=time&at=yesterday")
    assert "is no time" in browser.text
    received = await client.receive("t", "g", max_messages=32, wait_s=1)
    assert {message.delivery_attempt for message in received} == {1}


async def test_since_a_time(browser: Browser, client: Client) -> None:
    await client.admin.create_topic("t", queues=1)
    for number in range(20):
        await client.send("t", b"body %d" % number)
    found = await client.admin.get_message("t", (await client.send("t", b"the one")).message_id)
    assert found is not None
    await client.send("t", b"after")
    await browser.get(f"/topics/t?peek=time&at={int(found.stored_at.timestamp() * 1000)}")
    assert "the one" in browser.page
    assert "after" in browser.page
    assert "body 3<" not in browser.page


async def test_a_stuck_message_is_found_and_explained(browser: Browser, client: Client) -> None:
    await client.admin.create_topic("t", queues=1)
    await client.admin.create_group("g", start="first")
    receipt = await client.send("t", b"held", keys=["k"])
    await client.send("t", b"next")
    (held,) = await client.receive("t", "g", max_messages=1, wait_s=1, invisible_s=300)
    await browser.get("/groups/g")
    why = re.search(r'href="(/message\?[^"]+)"', browser.page)
    assert why is not None
    await browser.get(why[1].replace("&amp;", "&"))
    assert receipt.message_id in browser.text
    assert "leased" in browser.text
    await client.ack(held)
    await browser.get(f"/message?id={receipt.message_id}")
    assert "group g acked it" in browser.text
    await browser.get(f"/message?id={receipt.message_id}&group=another")
    assert "no-group" in browser.text
    await browser.get("/message?id=0000000000000000DEADBEEF", 404)


async def test_search_finds_by_each_name(browser: Browser, client: Client) -> None:
    await client.admin.create_topic("orders", queues=1)
    await client.admin.create_topic("orders-late", queues=1)
    await client.admin.create_group("billing", start="first")
    receipt = await client.send("orders", b"x", keys=["key-77"])
    (message,) = await client.receive("orders", "billing", wait_s=1)

    async def leads_to(text: str) -> str:
        found = await browser.http.get("/search", params={"q": text})
        assert found.status_code == 303, text
        return found.headers["location"]

    assert await leads_to("orders-late") == "/topics/orders-late"
    assert await leads_to("billing") == "/groups/billing"
    assert await leads_to(receipt.message_id) == f"/message?id={receipt.message_id}"
    there = await leads_to(message.receipt_handle)
    assert there == "/message?topic=orders&at=broker-a%3A0%3A0&group=billing"
    await browser.get(there)
    assert receipt.message_id in browser.text
    await browser.get("/search?q=order")
    assert "orders-late" in browser.text
    await browser.get("/search?q=key-77")
    assert receipt.message_id in browser.text
    await browser.get("/search?q=nothing-like-that")
    assert "Nothing was found" in browser.text


async def dead(client: Client, *reasons: str) -> None:
    """A dead letter of group `g` for each."""
    await client.admin.ensure_topic("t", queues=1)
    await client.admin.ensure_group("g", start="first", max_attempts=1)
    for reason in reasons:
        await client.send("t", f"body of {reason}".encode())
        for message in await client.receive("t", "g", wait_s=2):
            await client.nack(message, reason=reason)


async def test_search_finds_a_trace_among_the_newest(browser: Browser, client: Client) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    await client.admin.create_topic("t", queues=2)
    await client.admin.create_topic("u", queues=1)
    await client.send("u", b"x", properties={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    await client.send("t", b"other", keys=["k"])
    await browser.get(f"/search?q={trace}")
    assert "/topics/u" in browser.page
    assert "/topics/t" not in browser.page
    assert "messages of 2 topics of 2 were looked through" in browser.text
    await browser.get(f"/search?q={trace[::-1]}")
    assert "Nothing was found" in browser.text


async def test_dead_letters_by_reason_and_redriven(browser: Browser, client: Client) -> None:
    await dead(client, "timeout", "timeout of the bank", "=cmd()", "timeout")
    await browser.get("/dead-letters")
    assert re.search(r">g</a></td><td class=\"figure\">4<", browser.page)
    await browser.get("/dead-letters/g")
    await browser.post("/dead-letters/g/redrive-preview", 200, all_of="timeout")
    assert "Send 2 dead letters again" in browser.text
    chosen = re.findall(r'name="chosen" value="([^"]+)"', browser.page)
    assert len(chosen) == 2
    done = await browser.post("/dead-letters/g/redrive", 200, chosen=chosen, to="group")
    assert "2 of 2 dead letters sent again" in re.sub(r"\s+", " ", done.text)
    again = await browser.http.post(
        "/dead-letters/g/redrive",
        data={"token": browser.token or await token(browser), "chosen": chosen, "to": "group"},
    )
    assert again.text.count("had been sent before") == 2
    received = await client.receive("t", "g", wait_s=2, max_messages=16)
    assert sorted(message.body for message in received) == [b"body of timeout"] * 2
    (change, *_) = browser.console.changes.all()
    assert change.command.startswith("popmq dlq redrive g --id ")
    await browser.get("/dead-letters/g?reason=bank")
    assert "timeout of the bank" in browser.text


async def test_dead_letters_are_redriven_at_a_pace(browser: Browser, client: Client) -> None:
    await dead(client, "a", "a", "a")
    await browser.get("/dead-letters/g")
    await browser.post("/dead-letters/g/redrive-preview", 200, all_of="a")
    chosen = re.findall(r'name="chosen" value="([^"]+)"', browser.page)
    path, form = "/dead-letters/g/redrive", {"chosen": chosen, "to": "group"}
    for wrong in ("0", "-1", "many", "1e3"):
        await browser.post(path, 400, **form, per_second=wrong)
        await token(browser)
    await browser.post(path, 400, chosen=chosen * 20, to="group", per_second="1")
    assert "60 dead letters at 1 a second take longer than 50 s" in browser.text
    await token(browser)
    began_s = time.monotonic()
    await browser.post(path, 200, **form, per_second="1")
    assert time.monotonic() - began_s >= 2.0
    assert "3 of 3 dead letters sent again" in " ".join(browser.text.split())
    (change, *_) = browser.console.changes.all()
    assert "--per-second 1" not in change.command, "of chosen ones the command sends one at a time"


async def token(browser: Browser) -> str:
    await browser.get("/dead-letters/g")
    return browser.token


async def test_dead_letters_as_files(browser: Browser, client: Client) -> None:
    await dead(client, "=cmd()", 'a,"b"')
    text = (await browser.http.get("/dead-letters/g/export?as=csv")).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["reason"] for row in rows] == ["'=cmd()", 'a,"b"']
    assert rows[0]["body"] == "body of =cmd()"
    lines = (await browser.http.get("/dead-letters/g/export?as=json")).text.splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["=cmd()", 'a,"b"']
    await browser.get("/dead-letters/g/export?as=xml", 400)


async def test_dead_letters_are_purged_as_counted(browser: Browser, client: Client) -> None:
    await dead(client, "a", "b")
    await browser.get("/dead-letters/g/purge")
    assert "2 dead letters are deleted" in browser.text
    until = re.search(r'name="until" value="([^"]+)"', browser.page)
    assert until is not None
    counted = browser.page
    await dead(client, "c")
    browser.page = counted
    await browser.post("/dead-letters/g/purge", 400, name="other", until=until[1])
    browser.page = counted
    await browser.post("/dead-letters/g/purge", name="g", until=until[1])
    await browser.get("/dead-letters/g")
    assert "Deleted 2 dead letters." in browser.text
    assert "body" not in browser.text
    assert [one.reason async for one in client.admin.dead_letters("g")] == ["c"]


async def test_a_reset_shows_first_what_it_would_do(browser: Browser, client: Client) -> None:
    await client.admin.create_topic("t", queues=1)
    await client.admin.create_group("g", start="first")
    for number in range(6):
        await client.send("t", b"%d" % number)
    for message in await client.receive("t", "g", max_messages=4, wait_s=1):
        await client.ack(message)
    await browser.get("/groups/g/reset?topic=t&to=latest")
    assert re.search(r"skipped</span><strong>2<", browser.page)
    await browser.get("/groups/g/reset?topic=t&to=earliest")
    assert re.search(r"repeated</span><strong>4<", browser.page)
    form = {"topic": "t", "to": "earliest", "at": "", "queue": ""}
    await browser.post("/groups/g/reset", 400, name="x", **form)
    await browser.get("/groups/g/reset?topic=t&to=earliest")
    await browser.post("/groups/g/reset", 200, name="g", **form)
    assert "popmq group reset-offset g t --to-earliest --yes" in browser.text
    received = await client.receive("t", "g", max_messages=16, wait_s=1)
    assert len(received) == 6
    await browser.get("/groups/g/reset?topic=t&to=offset&at=3")
    assert "needs a queue" in browser.text
    await browser.get("/groups/g/reset?topic=t&to=offset&at=3&queue=broker-a:0")
    assert "--to-offset 3 --queue broker-a:0" in browser.text


async def test_groups_are_changed_and_deleted(browser: Browser, client: Client) -> None:
    await client.admin.create_group("g", start="first")
    await browser.get("/groups/g")
    await browser.post("/groups/g", max_attempts="3", retry_policy="1s,10s")
    found = await client.admin.find_group("g")
    assert found is not None
    assert found.max_attempts == 3
    await browser.get("/groups/g")
    await browser.post("/groups/g", 400, max_attempts="many")
    await browser.get("/groups/g/delete")
    await browser.post("/groups/g/delete", name="g")
    assert await client.admin.find_group("g") is None


@pytest.mark.parametrize("owner", ["", "payments"])
async def test_owners_are_shown_where_there_are_any(
    browser: Browser, client: Client, owner: str
) -> None:
    await client.admin.create_topic("t", owner=owner)
    await client.admin.create_topic("u")
    await client.admin.create_group("g", start="first", owner=owner)
    for page in ("/topics", "/groups", "/topics/t", "/groups/g", "/topics?sort=-owner"):
        await browser.get(page)
        assert ("owner" in browser.text, "payments" in browser.text) == (bool(owner), bool(owner))


async def test_transactions_are_settled(browser: Browser, client: Client) -> None:
    await client.admin.create_topic("paid", type="TRANSACTION", queues=1)
    await client.admin.create_group("g", start="first")
    for body in (b"yes", b"no"):
        await client.transactions.send("paid", body, keys=[body.decode()])
    await browser.get("/later")
    links = re.findall(r'href="(/later/settle\?[^"]+)"', browser.page)
    assert len(links) == 4
    for link, how in ((links[0], "commit"), (links[3], "rollback")):
        await browser.get(link.replace("&amp;", "&"))
        found = re.search(r'name="id" value="([^"]+)"', browser.page)
        assert found is not None
        await browser.post("/later/settle", id=found[1], how=how)
    await browser.get("/later")
    assert "Every transaction is settled." in browser.text
    received = await client.receive("paid", "g", wait_s=2)
    assert [message.body for message in received] == [b"yes"]


async def test_the_clusters_page_and_a_broker_made_read_only(
    browser: Browser, client: Client
) -> None:
    await browser.get("/cluster")
    assert "broker-a" in browser.text
    assert "--read-only" in browser.text
    await browser.get("/cluster/permission?broker=broker-a&to=read")
    await browser.post("/cluster/permission", broker="broker-a", to="read", name="broker-a")
    await browser.get("/cluster")
    assert "Clients may read at broker-a." in browser.text


async def test_every_change_is_told_with_its_command(browser: Browser, client: Client) -> None:
    await browser.get("/topics")
    await browser.post("/topics", name="orders", type="NORMAL", queues="1")
    await browser.get("/topics")
    await browser.post("/topics", 400, name="no good name!", type="NORMAL", queues="1")
    await browser.get("/access")
    assert "popmq topic create orders --type NORMAL --queues 1" in browser.text
    assert "popmq topic create 'no good name!'" in browser.text
    assert "refused" in browser.text


async def test_a_server_that_is_away_is_a_page() -> None:
    async with browsing(endpoint="127.0.0.1:9") as browser:
        await browser.get("/topics", 502)
        assert "No server answers" in browser.text
