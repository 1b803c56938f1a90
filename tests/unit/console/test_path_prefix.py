"""Does everything work below a path, behind a reverse proxy?"""

import re

import pytest
from harness.console import FakeCluster, browsing

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.config import ConsoleConfig


async def test_below_a_prefix() -> None:
    calls = FakeCluster(
        ListTopics=admin.ListTopicsResponse(), CreateTopic=admin.CreateTopicResponse()
    )
    async with browsing(calls, path_prefix="/queue") as browser:
        await browser.get("/topics", 404)
        first = await browser.http.get("/queue/topics")
        assert "Path=/queue/" in first.headers["set-cookie"]
        await browser.get("/queue/topics?q=a")
        links = re.findall(r'(?:href|action|src|hx-get|data-base)="([^"#?][^"]*)"', browser.page)
        assert links
        assert [one for one in links if not one.startswith("/queue/")] == []
        made = await browser.post("/queue/topics", name="new", type="NORMAL", queues="1")
        assert made.headers["location"] == "/queue/topics/new"
        assert (await browser.http.get("/queue/static/console.css")).status_code == 200
        assert (await browser.http.get("/queue")).headers["location"] == "/queue/"


@pytest.mark.parametrize("prefix", ["queue", "/queue/", "/", "/a b", "/<x>", "//"])
def test_a_prefix_that_is_none_is_told(prefix: str) -> None:
    with pytest.raises(ValueError, match="path prefix"):
        ConsoleConfig(endpoint="x", path_prefix=prefix)
