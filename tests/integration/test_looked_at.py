"""Messages that are looked at by what operators have: delayed ones, and those that SQL passes."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_tools import protoc
from harness.console import Browser, browsing
from integration.served import popmq, serving

from popmq import Client
from popmq.testing import PopmqBroker
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_console.config import read_protobuf_types


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(tmp_path) as one:
        yield one


@pytest.fixture
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker() as one:
        yield one


@pytest.fixture
async def client(endpoint: str) -> AsyncIterator[Client]:
    async with Client(endpoint, credentials=False) as one:
        await one.admin.create_topic("orders", type="MIXED", queues=2)
        await one.admin.create_topic("reminders", type="DELAY", queues=1)
        yield one


@pytest.fixture
async def browser(endpoint: str) -> AsyncIterator[Browser]:
    async with browsing(endpoint=endpoint) as one:
        yield one


async def test_delayed_messages_are_listed_and_taken_back(
    endpoint: str, client: Client, browser: Browser
) -> None:
    for hours in (3, 1, 2):
        topic = "reminders" if hours == 2 else "orders"
        await client.send(topic, b"x", keys=[f"in-{hours}h"], tag="late", delay_s=hours * 3600)
    await browser.get("/later")
    assert re.search(r"in-1h.*in-2h.*in-3h", browser.text)
    await browser.get("/later?topic=orders")
    assert re.search(r"in-1h.*in-3h", browser.text)
    assert "in-2h" not in browser.page
    assert "popmq message delayed orders" in browser.page
    address = re.search(r'href="(/recall\?[^"]+)"', browser.page)
    assert address is not None
    await browser.get(address[1].replace("&amp;", "&"))
    hidden = dict(re.findall(r'name="(topic|handle)" value="([^"]+)"', browser.page))
    await browser.post("/recall", **hidden)
    await browser.get("/later?topic=orders")
    assert "in-1h" not in browser.page
    assert "in-3h" in browser.page
    await browser.get("/later?topic=none")
    assert "none" in browser.text
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub = admin_grpc.AdminStub(channel)
        first = await stub.ListDelayed(admin.ListDelayedRequest(count_max=1))
        second = await stub.ListDelayed(admin.ListDelayedRequest(cursor=first.cursor))
        assert [list(one.messages[0].keys) for one in (first, second)] == [["in-2h"], ["in-3h"]]
        assert (second.cursor, second.waiting) == ("", 2)
        with pytest.raises(grpc.aio.AioRpcError, match="begin without one"):
            await stub.ListDelayed(admin.ListDelayedRequest(cursor="x"))
        await client.recall("orders", second.messages[0].recall_handle)


async def test_an_address_of_no_delayed_message_is_refused(browser: Browser) -> None:
    await browser.get("/recall?topic=t", 400)
    assert "names no message" in browser.text


async def test_messages_are_looked_for_by_sql(
    endpoint: str, client: Client, browser: Browser
) -> None:
    for price in range(300):
        properties = {"price": str(price)}
        await client.send("orders", b"order of %d" % price, properties=properties, tag="new")
    await browser.get("/topics/orders?sql=price+BETWEEN+100+AND+102")
    assert re.search("order of 102.*order of 101.*order of 100", browser.text)
    assert "3 messages of 300 looked at." in browser.text
    await browser.get("/topics/orders?peek=oldest&sql=price+%3E+7&text=ORDER+OF+9")
    assert re.search("order of 9 .*", browser.text)
    assert "order of 8 " not in browser.text
    await browser.get("/topics/orders?peek=time&at=1h&sql=TAGS+%3D+%27old%27")
    assert "None of the 300 messages looked at fits." in browser.text
    await browser.get("/topics/orders?sql=price+%3E")
    assert "column 8" in browser.text
    await browser.get("/topics/orders?sql=a+%3D+1&key=k")
    assert "look for a key or by SQL" in browser.text


def test_commands_look_too(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "later", "--type", "MIXED", "--queues", "1", *at)
    for price in ("5", "50"):
        popmq("send", "later", f"at {price}", "--property", f"price={price}", "--tag", "t", *at)
        popmq("send", "later", "x", "--delay", f"{price}m", "--key", f"in-{price}", *at)
    told = json.loads(popmq("message", "peek", "later", "--sql", "price > 9", "--json", *at).stdout)
    assert [one["properties"]["price"] for one in told["messages"]] == ["50"]
    assert (told["scanned"], told["more"]) == (2, False)
    output = popmq("message", "peek", "later", "--tag", "t", "--oldest", *at).output
    assert re.search(r"(?s)at 5 *\n.*at 50", output)
    popmq("message", "peek", "later", "--tag", "t", "--sql", "a = 1", *at, code=2)
    told = json.loads(popmq("message", "delayed", "later", "--json", *at).stdout)
    assert [one["keys"] for one in told["messages"]] == [["in-5"], ["in-50"]]
    handle = told["messages"][0]["recallHandle"]
    popmq("recall", "later", handle, *at)
    output = popmq("message", "delayed", *at).output
    assert "in-50" in output
    assert "in-5 " not in output


async def test_protobuf_bodies_are_shown_by_the_types_that_protoc_wrote(
    tmp_path: Path, endpoint: str, client: Client
) -> None:
    (tmp_path / "shop.proto").write_text(
        'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";\n'
        "message Order { string id = 1; google.protobuf.Timestamp at = 2; }\n"
    )
    file = tmp_path / "types.pb"
    included = Path(str(protoc.__file__)).parent / "_proto"
    options = [f"-I{tmp_path}", f"-I{included}", "--include_imports"]
    assert protoc.main(["protoc", *options, f"--descriptor_set_out={file}", "shop.proto"]) == 0
    await client.send("orders", b"\x0a\x03A-1\x12\x02\x08\x01")
    types = read_protobuf_types(file, ["ord*=shop.Order"])
    async with browsing(endpoint=endpoint, protobuf=types) as browser:
        await browser.get("/topics/orders")
        assert '{ "id": "A-1", "at": "1970-01-01T00:00:01Z" }' in browser.text
        address = re.search(r'href="(/message[^"]+)"', browser.page)
        assert address is not None
        await browser.get(address[1].replace("&amp;", "&"))
        assert "shop.Order, 9 bytes" in browser.text
        await browser.get("/cluster")
        assert "--descriptors, --topic-type" in browser.text
