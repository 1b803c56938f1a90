"""Names, reasons, bodies and properties are written by others: none of them becomes a tag."""

from typing import Any

import pytest
from harness.console import FakeCluster, browsing, check_html

from popmq_admin.v1 import admin_pb2 as admin

EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 987*987 }}{% for x in y %}",
    "</title></textarea><svg onload=alert(1)>",
    "a&lt;b&amp;c\u202egnp.exe\x00\x1b[31m",
    "%00%2e%2e/\\..",
]


def stored_message(evil: str) -> admin.StoredMessage:
    return admin.StoredMessage(
        broker=evil,
        topic=evil,
        message_id=evil,
        keys=[evil],
        tag=evil,
        message_group=evil,
        stored_ms=1,
        body=evil.encode(),
        body_bytes=len(evil.encode()),
        properties={evil: evil},
    )


def told_of_services(evil: str) -> dict[str, Any]:
    return {
        "ListDelayed": admin.ListDelayedResponse(
            messages=[
                admin.DelayedMessage(
                    broker=evil,
                    topic=evil,
                    message_id=evil,
                    due_ms=1,
                    keys=[evil],
                    tag=evil,
                    recall_handle=evil,
                )
            ],
            cursor=evil,
            by_level=1,
        ),
        "PeekMessages": admin.PeekMessagesResponse(messages=[stored_message(evil)], scanned=1),
        "ShowSettings": admin.ShowSettingsResponse(
            services=[
                admin.ServiceSettings(
                    role=evil,
                    name=evil,
                    settings=[admin.Setting(name=evil, value=evil, source=evil)],
                ),
                admin.ServiceSettings(role=evil, name=evil, failure=evil),
            ]
        ),
        "ListAuditLines": admin.ListAuditLinesResponse(
            lines=[
                admin.AuditLine(
                    at_ms=1,
                    what=evil,
                    user=evil,
                    address=evil,
                    call=evil,
                    resource=evil,
                    outcome=evil,
                    target=evil,
                    proxy=evil,
                )
            ],
            more=True,
            proxies=[admin.AuditedProxy(name=evil, started_ms=1)],
            silent_brokers=[evil],
        ),
    }


def cluster(evil: str) -> FakeCluster:
    topic = admin.Topic(name=evil, message_type=evil, queues=1, read_queues=1)
    group = admin.Group(name=evil, max_attempts=1, consume_from=evil)
    stored = stored_message(evil)
    letter = admin.DeadLetter(
        broker=evil, topic=evil, message_id=evil, reason=evil, cursor=f"{evil}:0:0", stored_ms=1
    )
    use = admin.GroupUse(group=evil, topic=evil, lag=1)
    state = admin.BrokerState(
        name=evil, address=evil, version=evil, now_ms=10**9, data_dir=evil, groups=[use]
    )
    figures = admin.BrokerFigures(
        now_ms=10**9,
        topics=[admin.TopicFigures(topic=evil, stored=1)],
        groups=[admin.GroupFigures(group=evil, topic=evil, ready=1)],
    )
    transaction = admin.Transaction(transaction_id=evil, topic=evil, message_id=evil, keys=evil)
    entry = admin.AclEntry(resource=evil, actions=[evil], decision=evil)
    acl = admin.Acl(subject=f"User:{evil}", policies=[admin.AclPolicy(type=evil, entries=[entry])])
    return FakeCluster(
        ListTopics=admin.ListTopicsResponse(
            topics=[topic, admin.Topic(name=f"%DLQ%{evil}", message_type="NORMAL")]
        ),
        DescribeTopic=admin.DescribeTopicResponse(
            topic=topic, queues=[admin.TopicQueue(broker=evil, max_offset=1)]
        ),
        GetMessage=admin.GetMessageResponse(messages=[stored]),
        FindMessages=admin.FindMessagesResponse(messages=[stored]),
        ListGroups=admin.ListGroupsResponse(groups=[group]),
        DescribeGroup=admin.DescribeGroupResponse(
            group=group,
            queues=[
                admin.GroupQueue(
                    broker=evil, topic=evil, max_offset=1, lag=1, in_flight=1, locked_by=evil
                )
            ],
        ),
        ListDeadLetters=admin.ListDeadLettersResponse(letters=[letter]),
        PurgeDeadLetters=admin.PurgeDeadLettersResponse(
            queues=[admin.PurgedQueue(broker=evil, count=1)]
        ),
        Redrive=admin.RedriveDeadLettersResponse(sent=1),
        ResetOffsets=admin.ResetOffsetsResponse(queues=[admin.QueueReset(broker=evil)]),
        Explain=admin.ExplainResponse(
            found=True,
            topic=evil,
            timeline=[admin.TimelineEvent(broker=evil, group=evil, kind=evil, text=evil)],
            verdicts=[admin.Verdict(group=evil, state=evil, text=evil, hint=evil)],
            notes=[evil],
        ),
        Inspect=admin.InspectResponse(version=evil, now_ms=1, brokers=[state]),
        ShowCluster=admin.ShowClusterResponse(
            now_ms=1,
            brokers=[admin.BrokerAnswer(name=evil, address=evil, figures=figures)],
            proxies=[admin.ProxyFigures(id=evil, name=evil, address=evil, version=evil)],
            nameservers=[admin.NameserverFigures(address=evil, failure=evil)],
        ),
        ListTransactions=admin.ListTransactionsResponse(transactions=[transaction], count=1),
        ListUsers=admin.ListUsersResponse(
            users=[admin.User(username=evil, type=evil, status=evil)], missing_brokers=[evil]
        ),
        ListAcls=admin.ListAclsResponse(acls=[acl]),
        ListLimits=admin.ListLimitsResponse(limits=[admin.Limits(subject=evil)]),
        **told_of_services(evil),
    )


PAGES = [
    "/",
    "/topics",
    "/topics?system=1",
    "/topics/t",
    "/topics/t?sql=a",
    "/topics/t/delete",
    "/groups",
    "/groups/g",
    "/groups/g/delete",
    "/groups/g/reset?topic=t&to=earliest",
    "/dead-letters",
    "/dead-letters/g",
    "/dead-letters/g/purge",
    "/message?id=m",
    "/message?topic=t&at=b:0:0",
    "/later",
    "/recall?topic=t&handle=h&id=i",
    "/cluster",
    "/audit",
    "/access",
    "/access/user/u?how=delete",
    "/search?q=zzz",
]


@pytest.mark.parametrize("evil", EVIL)
async def test_what_others_wrote_stays_text(evil: str) -> None:
    async with browsing(cluster(evil)) as browser:
        for path in PAGES:
            await browser.get(path)
            assert str(987 * 987) not in browser.page


@pytest.mark.parametrize("evil", EVIL)
async def test_what_an_address_says_stays_text(evil: str) -> None:
    """Parameters of addresses are another's words too: a link may be sent to somebody."""
    async with browsing(cluster("plain")) as browser:
        names = "q sort page type system peek at queue tag key text state reason id topic group to "
        names += (
            "cursor how user action resource ip then in show trail what before sql cursor handle"
        )
        for path in ["/", "/topics", "/topics/t", "/groups", "/groups/g", "/later", "/access"]:
            params: dict[str, Any] = dict.fromkeys(names.split(), evil)
            response = await browser.http.get(path, params=params)
            assert response.status_code == 200, path
            check_html(response.text)
        for path in ["/message", "/dead-letters/g", "/search", "/login", "/groups/g/reset"]:
            response = await browser.http.get(path, params=dict.fromkeys(names.split(), evil))
            assert response.status_code in (200, 303, 400), path
            if response.status_code != 303:
                check_html(response.text)


async def test_a_redrive_of_hostile_letters() -> None:
    for evil in EVIL:
        async with browsing(cluster(evil)) as browser:
            await browser.get("/dead-letters/g")
            done = await browser.post("/dead-letters/g/redrive-preview", 200, all_of=evil)
            check_html(done.text)
            done = await browser.post(
                "/dead-letters/g/redrive", 200, chosen=[f"b:0:0 {evil}"], to="group"
            )
            check_html(done.text)
