"""The search box among many topics: the proxy is asked for the names with the text."""

from typing import Any

from harness.console import FakeCluster, browsing

from popmq_admin.v1 import admin_pb2 as admin


def cluster(count: int) -> FakeCluster:
    names = [f"orders-{number}" for number in range(count)]

    def topics(request: admin.ListTopicsRequest, _: Any) -> admin.ListTopicsResponse:
        found = [admin.Topic(name=name) for name in names if request.contains in name]
        return admin.ListTopicsResponse(topics=found, total=count)

    return FakeCluster(
        ListTopics=topics,
        ListGroups=admin.ListGroupsResponse(),
        FindMessages=admin.FindMessagesResponse(),
    )


def asked(calls: FakeCluster) -> list[str]:
    return [request.contains for rpc, request, _ in calls.asked if rpc == "ListTopics"]


async def test_among_many_topics_a_key_is_looked_for_in_none() -> None:
    calls = cluster(1_000)
    async with browsing(calls) as browser:
        page = await browser.get("/search?q=rders-99")
    assert asked(calls) == ["rders-99"]
    assert calls.times("FindMessages") == 0
    assert "There are 1,000 topics" in page
    assert "orders-990" in page


async def test_among_few_topics_a_key_is_looked_for_in_all() -> None:
    calls = cluster(30)
    async with browsing(calls) as browser:
        await browser.get("/search?q=k-7")
    assert asked(calls) == ["k-7", ""]
    assert calls.times("FindMessages") == 30


async def test_what_may_be_an_id_is_looked_for_everywhere() -> None:
    calls = cluster(30)
    async with browsing(calls) as browser:
        await browser.get("/search?q=01AABBCCDDEEFF00110011223300000001")
    assert asked(calls) == [""]
