"""What an operator does, from the first look to the end, in a browser."""

import asyncio
import csv
import re
from pathlib import Path

from console_browser.conftest import opened
from integration.served import OPERATOR, SECRET, serving_users
from playwright.async_api import Browser, Page, expect

from popmq import Client, Credentials, Message
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.process.clock import SystemClock
from popmq_console.app import console
from popmq_console.config import ConsoleConfig

REASONS = ("card declined", "address not known: <b>x</b>", "timeout of the bank")


async def test_a_stuck_message_is_found_explained_mended_and_delivered(
    page: Page, url: str, client: Client
) -> None:
    """A consumer holds a message and never answers; the reset gives it to another one."""
    await client.admin.create_topic("orders", queues=1)
    await client.admin.create_group("billing", start="first")
    receipt = await client.send("orders", b'{"order": 1}', keys=["order-1"])
    await client.receive("orders", "billing", max_messages=1, wait_s=1, invisible_s=3_600)

    await page.goto(f"{url}/")
    await page.get_by_role("link", name="billing").first.click()
    await page.get_by_role("link", name=receipt.message_id).first.click()
    await expect(page.locator(".verdict")).to_contain_text("leased")
    await expect(page.locator(".timeline")).to_contain_text("handed out to group billing")

    await page.locator(".verdict").get_by_role("link", name="billing").click()
    await page.get_by_role("link", name="reset …").click()
    await page.locator("select[name=to]").select_option("earliest")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator(".tiles")).to_contain_text(re.compile(r"repeated\s*1"))
    await expect(page.locator(".tiles")).to_contain_text(re.compile(r"leases that end\s*1"))
    await page.get_by_label("Type billing").fill("billing")
    await page.get_by_role("button", name="Reset the offsets").click()
    await expect(page.get_by_role("heading", name="are reset")).to_be_visible()

    (message,) = await client.receive("orders", "billing", wait_s=5)
    assert message.message_id == receipt.message_id
    await client.ack(message)
    await page.locator(".search input").fill(receipt.message_id)
    await page.keyboard.press("Enter")
    await expect(page.locator(".verdict")).to_contain_text("acked")


async def test_dead_letters_of_three_reasons_are_sorted_out(
    page: Page, url: str, client: Client
) -> None:
    await client.admin.create_topic("orders", queues=1)
    await client.admin.create_group("billing", start="first", max_attempts=1)
    for number, reason in enumerate([*REASONS, REASONS[0], REASONS[0]]):
        await client.send("orders", b"%d" % number)
        for message in await client.receive("orders", "billing", wait_s=2):
            await client.nack(message, reason=reason)

    await page.goto(f"{url}/dead-letters")
    await page.get_by_role("link", name="billing").click()
    rows = page.locator("table").first.locator("tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.first).to_contain_text("card declined")
    await expect(page.get_by_text("<b>x</b>").first).to_be_visible()

    await rows.first.get_by_role("button", name="redrive all").click()
    await expect(page.get_by_role("heading", name="Send 3 dead letters again")).to_be_visible()
    await page.get_by_role("button", name="Send them again").click()
    await expect(page.get_by_role("heading", name="3 of 3")).to_be_visible()
    received = await client.receive("orders", "billing", wait_s=5, max_messages=16)
    assert sorted(message.body for message in received) == [b"0", b"3", b"4"]
    for message in received:
        await client.ack(message)

    await page.get_by_role("link", name="To the dead letters").click()
    await expect(rows.first).to_contain_text(re.compile(r"3\s*0"))
    box = page.locator("tr", has_text="timeout of the bank").locator("input[type=checkbox]")
    await box.check()
    await page.get_by_label("to their topics").check()
    await page.get_by_role("button", name="Redrive the chosen").click()
    await page.get_by_label("Type billing").fill("billing")
    await page.get_by_role("button", name="Send them again").click()
    await expect(page.locator("td", has_text="sent")).to_be_visible()
    (message,) = await client.receive("orders", "billing", wait_s=5)
    assert message.body == b"2"

    await page.goto(f"{url}/dead-letters/billing/purge")
    await page.get_by_label("Type billing").fill("billing")
    await page.get_by_role("button", name="Delete them").click()
    await expect(page.get_by_role("status")).to_contain_text("Deleted 5 dead letters")


THOUSAND = {"card declined": 500, "timeout of the bank": 300, "no such address": 200}


async def test_a_thousand_dead_letters_are_sorted_out_by_reason(
    page: Page, url: str, client: Client
) -> None:
    """Sent again, kept as a file, deleted: one reason each."""
    await client.admin.create_topic("orders", queues=1)
    await client.admin.create_group("billing", start="first", max_attempts=1)
    reasons = [reason for reason, count in THOUSAND.items() for _ in range(count)]
    await client.send_many(
        "orders", [Message(body=b"%d" % number) for number in range(len(reasons))]
    )
    left = list(reasons)
    while left:
        for message in await client.receive("orders", "billing", wait_s=5, max_messages=32):
            await client.nack(message, reason=left.pop())

    await page.goto(f"{url}/dead-letters/billing")
    rows = page.locator("table").first.locator("tbody tr")
    await expect(rows).to_have_count(3)
    for row, (reason, count) in zip(await rows.all(), THOUSAND.items(), strict=True):
        await expect(row).to_contain_text(reason)
        await expect(row).to_contain_text(str(count))

    await rows.first.get_by_role("button", name="redrive all").click()
    await expect(page.get_by_role("heading", name="Send 500 dead letters again")).to_be_visible()
    await page.get_by_role("button", name="Send them again").click()
    await expect(page.get_by_role("heading", name="500 of 500")).to_be_visible(timeout=60_000)
    handled = 0
    while handled < THOUSAND["card declined"]:
        received = await client.receive("orders", "billing", wait_s=5, max_messages=32)
        assert received
        for message in received:
            await client.ack(message)
        handled += len(received)
    assert await client.receive("orders", "billing", wait_s=0.5) == []

    await page.goto(f"{url}/dead-letters/billing?reason=timeout")
    async with page.expect_download() as download:
        await page.get_by_role("link", name="CSV").click()
    file = await (await download.value).path()
    with file.open(newline="") as text:
        told = [row["reason"] for row in csv.DictReader(text)]
    assert told == ["timeout of the bank"] * THOUSAND["timeout of the bank"]

    await page.goto(f"{url}/dead-letters/billing/purge")
    await expect(page.get_by_text("1,000 dead letters are deleted")).to_be_visible()
    await page.get_by_label("Type billing").fill("billing")
    await page.get_by_role("button", name="Delete them").click()
    await expect(page.get_by_role("status")).to_contain_text("Deleted 1,000 dead letters")


async def test_a_reset_is_previewed_and_may_be_left(page: Page, url: str, client: Client) -> None:
    await client.admin.create_topic("t", queues=1)
    await client.admin.create_group("g", start="first")
    for number in range(5):
        await client.send("t", b"%d" % number)
    for message in await client.receive("t", "g", max_messages=2, wait_s=1):
        await client.ack(message)
    await page.goto(f"{url}/groups/g/reset?topic=t&to=latest")
    await expect(page.locator(".tiles")).to_contain_text(re.compile(r"skipped\s*3"))
    await page.get_by_role("link", name="Do not").click()
    await expect(page).to_have_url(f"{url}/groups/g")
    assert len(await client.receive("t", "g", max_messages=16, wait_s=1)) == 3


async def test_a_user_without_rights(chromium: Browser, tmp_path: Path) -> None:
    async with (
        serving_users(tmp_path) as endpoint,
        console(ConsoleConfig(endpoint=endpoint, port=0), SystemClock()) as served,
        opened(chromium) as page,
    ):
        secret = await _reader_of_orders(endpoint)
        url = served.url.rstrip("/")
        await page.goto(f"{url}/topics/orders?peek=oldest")
        await page.get_by_label("user").fill("reader")
        await page.get_by_label("secret").fill("wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert")).to_contain_text("not known to the cluster")
        await page.get_by_label("secret").fill(secret)
        await page.get_by_role("button", name="Log in").click()
        await expect(page).to_have_url(f"{url}/topics/orders?peek=oldest")
        await expect(page.get_by_text("for readers")).to_be_visible()
        await expect(page.get_by_text("You may change nothing here.")).to_be_visible()
        await page.goto(f"{url}/topics")
        await expect(page.get_by_text("You may not list them")).to_be_visible()
        await page.goto(f"{url}/topics/payments")
        await expect(page.get_by_role("heading", name="You may not do that")).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def _reader_of_orders(endpoint: str) -> str:
    """The secret of `reader`, who may read one topic."""
    async with Client(endpoint, credentials=Credentials(OPERATOR, SECRET)) as client:
        await client.admin.create_topic("orders", queues=1)
        await client.admin.create_topic("payments", queues=1)
        await client.send("orders", b"for readers")
        connection = client.connection
        made = await connection.admin.CreateUser(
            admin.CreateUserRequest(username="reader"), metadata=connection.admin_metadata()
        )
        entry = admin.AclEntry(resource="Topic:orders", actions=["Get"], decision="Allow")
        await connection.admin.PutAcl(
            admin.PutAclRequest(subject="User:reader", entries=[entry]),
            metadata=connection.admin_metadata(),
        )
        return str(made.secret)


async def test_figures_come_by_themselves_until_they_are_paused(
    page: Page, url: str, client: Client
) -> None:
    await client.admin.create_topic("t", queues=1)
    await client.admin.create_group("g", start="first")
    await client.receive("t", "g", wait_s=0)
    await page.goto(f"{url}/groups/g")
    lag = page.locator(".tile", has_text="lag").locator("strong")
    await expect(lag).to_have_text("0")
    await client.send("t", b"x")
    await expect(lag).to_have_text("1", timeout=15_000)
    await page.keyboard.press("p")
    await expect(page.get_by_role("button", name="Go on")).to_be_visible()
    await client.send("t", b"y")
    await asyncio.sleep(6)
    await expect(lag).to_have_text("1")
    await page.get_by_role("button", name="Go on").click()
    await expect(lag).to_have_text("2", timeout=15_000)


async def test_keys_times_and_copies(page: Page, url: str, client: Client) -> None:
    await client.admin.create_topic("t", queues=1)
    await client.send("t", b"x")
    await page.goto(f"{url}/")
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await expect(page).to_have_url(f"{url}/topics")
    await page.keyboard.press("/")
    await page.keyboard.type("t")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{url}/topics/t")  # loaded: times are the reader's
    shown = page.locator("time[data-ms]").first
    utc = await shown.get_attribute("datetime")
    text = await shown.inner_text()
    assert utc is not None
    minutes = [int(part[14:16]) for part in (text, utc.replace("T", " "))]
    assert (minutes[0] - minutes[1]) % 60 == 30  # India is five and a half hours ahead
    assert utc in (await shown.get_attribute("title") or "")
    await page.locator("[data-copy]").last.click()
    assert await page.evaluate("navigator.clipboard.readText()") == "popmq topic show t"


async def test_the_chart_is_drawn(page: Page, url: str, client: Client) -> None:
    await client.admin.create_topic("t", queues=1)
    await page.goto(f"{url}/")
    await client.send("t", b"x")
    await expect(page.locator(".chart canvas")).to_be_visible(timeout=15_000)
    await expect(page.locator(".chart .u-legend")).to_contain_text("acked/s")


async def test_figures_are_sent_and_when_that_fails_they_are_asked_for(
    page: Page, url: str, client: Client
) -> None:
    """A reverse proxy may let no stream through."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(url)))
    await page.goto(f"{url}/topics")
    await expect(page.locator("#live")).to_be_visible()
    await client.admin.create_topic("sent", queues=1)
    await expect(page.get_by_role("link", name="sent", exact=True)).to_be_visible(timeout=15_000)
    assert asked.count("/live/topics") == 1
    assert asked.count("/topics") == 1  # htmx asked for nothing

    await page.keyboard.press("p")
    await client.admin.create_topic("unseen", queues=1)
    await page.wait_for_timeout(6_000)
    await expect(page.get_by_role("link", name="unseen")).to_have_count(0)
    await page.keyboard.press("p")
    await expect(page.get_by_role("link", name="unseen")).to_be_visible(timeout=15_000)

    await page.route("**/live/**", lambda route: route.abort())
    await page.goto(f"{url}/groups")
    await client.admin.create_group("asked-for")
    await expect(page.get_by_role("link", name="asked-for")).to_be_visible(timeout=15_000)
    assert asked.count("/groups") > 1


async def test_what_somebody_types_is_not_taken_away(page: Page, url: str, client: Client) -> None:
    await page.goto(f"{url}/later")
    await page.get_by_label("Topic").first.fill("half a na")
    await page.wait_for_timeout(6_000)
    await expect(page.get_by_label("Topic").first).to_have_value("half a na")
