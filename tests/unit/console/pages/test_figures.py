"""What is known is shown, what is not known is not shown as 0, and long lists come fast."""

import time

from harness.console import FakeCluster, browsing

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.process.clock import VirtualClock

MANY = 20_000
WITHIN_S = 2.0
"""Ten times what it takes on a quiet machine."""


async def test_twenty_thousand_topics_come_in_pages() -> None:
    topics = [
        admin.Topic(name=f"topic-{n:05}", message_type="NORMAL", queues=8) for n in range(MANY)
    ]
    calls = FakeCluster(
        ListTopics=admin.ListTopicsResponse(topics=topics),
        ShowCluster=admin.ShowClusterResponse(now_ms=1),
    )
    async with browsing(calls) as browser:
        await browser.get("/topics")
        began_s = time.perf_counter()
        await browser.get("/topics?page=400&sort=-name")
        assert time.perf_counter() - began_s < WITHIN_S
        assert "topic-00049" in browser.page
        assert "topic-00050" not in browser.page
        assert "19,951–20,000 of 20,000 topics" in browser.text
        assert len(browser.page) < 100_000
        await browser.get("/topics?q=TOPIC-1999")
        assert "1–10 of 10 topics (20,000 without the filter)" in browser.text
        asked = {rpc for rpc, _, _ in calls.asked}
        assert asked == {"TestAccess", "ListTopics", "ShowCluster"}  # nothing for each row


async def test_what_is_not_known_is_no_zero() -> None:
    calls = FakeCluster(
        ListTopics=admin.ListTopicsResponse(topics=[admin.Topic(name="quiet", queues=8)]),
        ListGroups=admin.ListGroupsResponse(groups=[admin.Group(name="silent", max_attempts=3)]),
        DescribeGroup=admin.DescribeGroupResponse(group=admin.Group(name="silent")),
    )
    async with browsing(calls) as browser:
        for path in ("/topics", "/groups"):
            await browser.get(path)
            row = browser.page.partition("<tbody>")[2].partition("</tbody>")[0]
            assert 'title="not known"' in row
            assert ">0<" not in row
        await browser.get("/groups/silent")
        assert "dead letters</span><a" in browser.page
        assert 'title="not known">–</span></a>' in browser.page
        await browser.get("/")
        assert "You may not see the cluster" in browser.text


async def test_figures_tell_their_age() -> None:
    clock = VirtualClock(5_000_000)
    calls = FakeCluster(ShowCluster=admin.ShowClusterResponse(now_ms=1))
    async with browsing(calls, clock) as browser:
        await browser.get("/")
        clock.advance(900)
        await browser.get("/")
        assert 'data-age="5000000" data-now="5000900"' in browser.page
        assert calls.times("ShowCluster") == 1
        clock.advance(200)
        await browser.get("/")
        assert 'data-age="5001100"' in browser.page
        assert calls.times("ShowCluster") == 2


async def test_lag_is_at_least_what_is_known() -> None:
    group = admin.GroupFigures(group="g", topic="t", ready=1_234)
    figures = admin.BrokerFigures(now_ms=1, groups=[group], groups_left_out=7)
    look = admin.ShowClusterResponse(
        now_ms=1, brokers=[admin.BrokerAnswer(name="a", figures=figures)]
    )
    async with browsing(FakeCluster(ShowCluster=look)) as browser:
        await browser.get("/")
        assert "≥ 1,234" in browser.text
        assert "7 groups and 0 topics of broker a are not shown" in browser.text


async def test_a_broker_that_is_away_is_told_first() -> None:
    look = admin.ShowClusterResponse(
        now_ms=1, brokers=[admin.BrokerAnswer(name="a", address="x:1", failure="refused")]
    )
    async with browsing(FakeCluster(ShowCluster=look)) as browser:
        await browser.get("/")
        assert "broker a at x:1 gives no figures: refused" in browser.text
        assert browser.text.index("gives no figures") < browser.text.index("dead letters")


async def test_every_limit_is_shown_and_0_is_none() -> None:
    """All fields of the message are asked for, so a limit that is added must be on the page too."""
    names = [field.name for field in admin.Limits.DESCRIPTOR.fields if field.name != "subject"]
    amounts = {name: 70_001 + number for number, name in enumerate(names)}
    limits = [admin.Limits(subject="User:shop", **amounts), admin.Limits(subject="Client:*")]
    calls = FakeCluster(ListLimits=admin.ListLimitsResponse(limits=limits))
    async with browsing(calls) as browser:
        await browser.get("/access")
        for name, amount in amounts.items():
            assert f">{amount}<" in browser.page, name
        assert browser.page.count(">no limit<") == len(names)


async def test_times_are_in_utc_on_hover() -> None:
    stored = admin.StoredMessage(topic="t", message_id="m", stored_ms=1_795_601_234_567)
    calls = FakeCluster(
        GetMessage=admin.GetMessageResponse(messages=[stored]),
        Explain=admin.ExplainResponse(found=True, topic="t", now_ms=1),
    )
    async with browsing(calls) as browser:
        await browser.get("/message?topic=t&at=a:0:0")
        assert 'data-ms="1795601234567" title="2026-11-25T10:07:14.567Z UTC"' in browser.page


async def test_an_address_keeps_its_state() -> None:
    topics = [admin.Topic(name=f"t{n:03}", message_type="FIFO") for n in range(120)]
    async with browsing(FakeCluster(ListTopics=admin.ListTopicsResponse(topics=topics))) as browser:
        await browser.get("/topics?q=t&sort=-name&type=FIFO&page=2")
        assert 'href="/topics?q=t&amp;sort=-name&amp;type=FIFO&amp;page=3"' in browser.page
        assert 'hx-get="/topics?q=t&amp;sort=-name&amp;type=FIFO&amp;page=2"' in browser.page
