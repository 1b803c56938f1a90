"""Who gets in, and what is taken from whom: headers, hosts, forms, sessions, rights."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from harness.console import Browser, FakeCluster, browsing

from popmq._core.signature import Headers, authorization
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.process.clock import VirtualClock
from popmq_console.config import ConsoleConfig
from popmq_console.pages.login import local_address
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.routes import ROUTES

SECRETS = {"alice": "a-secret-of-alice", "root": "a-secret-of-root"}


def user_of(headers: Headers) -> str:
    found = re.search(r"Credential=(\w+)", dict(headers).get("authorization", ""))
    return found[1] if found else ""


def guarded() -> FakeCluster:
    """root may everything, alice may read the topic orders; others are not known."""
    users = dict(SECRETS)

    def known(headers: Headers) -> str:
        user = user_of(headers)
        date = dict(headers).get("x-mq-date-time", "")
        if user not in users or dict(headers)["authorization"] != authorization(
            user, users[user], date
        ):
            raise CallFailed(Failure.NOT_KNOWN, "who are you?")
        return user

    def test(request: admin.TestAccessRequest, headers: Headers) -> admin.TestAccessResponse:
        user = known(headers)
        may = user == "root" or (request.resource, list(request.actions)) == (
            "Topic:orders",
            ["Get"],
        )
        return admin.TestAccessResponse(
            allowed=may, username=user, authentication=True, authorization=True
        )

    def only_root(answer: Any) -> Any:
        def asked(request: Any, headers: Headers) -> Any:
            if known(headers) != "root":
                raise CallFailed(Failure.DENIED, f"User:{known(headers)} has no permission")
            return answer

        return asked

    topic = admin.Topic(name="orders", message_type="NORMAL", queues=1)
    described = admin.DescribeTopicResponse(topic=topic)
    cluster = FakeCluster(
        TestAccess=test,
        DescribeTopic=lambda request, headers: known(headers) and described,
        ListTopics=only_root(admin.ListTopicsResponse(topics=[topic])),
        ListGroups=only_root(admin.ListGroupsResponse()),
        ShowCluster=only_root(admin.ShowClusterResponse(now_ms=1)),
        Inspect=only_root(admin.InspectResponse(now_ms=1)),
        CreateTopic=only_root(admin.CreateTopicResponse()),
        DeleteTopic=only_root(admin.DeleteTopicResponse()),
        ListUsers=only_root(admin.ListUsersResponse()),
    )
    cluster.answers["users"] = users
    return cluster


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing(guarded(), VirtualClock(1_000_000)) as one:
        yield one


@pytest.fixture
async def free() -> AsyncIterator[Browser]:
    """Before a cluster where nobody has to log in."""
    topic = admin.Topic(name="orders", message_type="NORMAL")
    calls = FakeCluster(
        ListTopics=admin.ListTopicsResponse(topics=[topic]),
        CreateTopic=admin.CreateTopicResponse(),
        DescribeTopic=admin.DescribeTopicResponse(topic=topic),
    )
    async with browsing(calls) as one:
        yield one


async def log_in(browser: Browser, user: str, then: str = "") -> None:
    await browser.get(f"/login?then={then}" if then else "/login")
    await browser.post("/login", user=user, secret=SECRETS[user], then=then)


# --- every answer ---


async def test_headers_of_every_answer(free: Browser) -> None:
    for path in ("/topics", "/static/console.js", "/nothing", "/healthz", "/static/nothing"):
        headers = (await free.http.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
    assert (await free.http.get("/topics")).headers["cache-control"] == "no-store"


async def test_the_cookie_is_for_this_console_alone(free: Browser) -> None:
    (cookie,) = (await free.http.get("/topics")).headers.get_list("set-cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    async with browsing(FakeCluster(), secure_cookie=True) as secure:
        assert "Secure" in (await secure.http.get("/login")).headers["set-cookie"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8082", "127.0.0.1.evil.example"])
async def test_a_name_that_points_here_reads_nothing(free: Browser, host: str) -> None:
    response = await free.http.get("/topics", headers={"host": host})
    assert response.status_code == 421
    assert "orders" not in response.text
    assert "set-cookie" not in response.headers


async def test_a_name_that_the_console_was_told_is_served() -> None:
    async with browsing(FakeCluster(), allowed_hosts=("Queue.example.org",)) as browser:
        found = await browser.http.get("/login", headers={"host": "queue.example.org"})
        assert found.status_code == 200


# --- forms ---


CHANGES = sorted(
    one.path.format(name="x", how="delete")
    for one in ROUTES
    if one.method == "POST" and one.path not in ("/login", "/logout")
)


@pytest.mark.parametrize("path", CHANGES)
async def test_a_form_without_the_token_changes_nothing(free: Browser, path: str) -> None:
    calls = free.console.calls
    assert isinstance(calls, FakeCluster)
    await free.get("/topics")
    for token in ("", "0" * 64, "ü"):
        await free.post(path, 400, token=token, name="x")
    free.http.cookies.clear()
    await free.post(path, 400, name="x")  # the token of another visitor
    assert {rpc for rpc, _, _ in calls.asked} <= {"TestAccess", "ListTopics", "ShowCluster"}


@pytest.mark.parametrize("path", CHANGES)
async def test_read_only_is_read_only(path: str) -> None:
    calls = FakeCluster(ListTopics=admin.ListTopicsResponse())
    async with browsing(calls, read_only=True) as browser:
        await browser.get("/topics")
        await browser.get("/login")
        await browser.post(path, 400, name="x")
        assert "--read-only" in browser.page
        assert {rpc for rpc, _, _ in calls.asked} <= {"TestAccess", "ListTopics", "ShowCluster"}


async def test_a_form_of_another_site_is_not_taken(free: Browser) -> None:
    await free.get("/topics")
    data = {"token": free.token, "name": "new"}
    sent = await free.http.post("/topics", data=data, headers={"sec-fetch-site": "cross-site"})
    assert sent.status_code == 403


async def test_forms_are_small(free: Browser) -> None:
    await free.get("/topics")
    large = await free.http.post("/topics", content=b"x" * (6 << 20))
    assert large.status_code == 413

    async def parts() -> AsyncIterator[bytes]:
        yield b"token=x"

    endless = await free.http.post("/topics", content=parts())
    assert endless.status_code == 411
    many = "&".join(f"a{number}=1" for number in range(5_000)).encode()
    head = {"content-type": "application/x-www-form-urlencoded"}
    assert (await free.http.post("/topics", content=many, headers=head)).status_code == 400


async def test_a_form_with_the_token_is_taken(free: Browser) -> None:
    await free.get("/topics")
    response = await free.post("/topics", name="new", type="FIFO", queues="4")
    assert response.headers["location"] == "/topics/new"
    await free.get("/topics/new")
    assert "Topic new is created." in free.text
    await free.get("/topics/new")
    assert "Topic new is created." not in free.text


async def test_who_typed_another_name_deletes_nothing(free: Browser) -> None:
    await free.get("/topics/orders/delete")
    await free.post("/topics/orders/delete", 400, name="order")
    calls = free.console.calls
    assert isinstance(calls, FakeCluster)
    assert calls.times("DeleteTopic") == 0


# --- sessions ---


@pytest.mark.parametrize("path", ["/", "/topics", "/topics/orders", "/access", "/search?q=a"])
async def test_nobody_reads_anything_without_a_log_in(browser: Browser, path: str) -> None:
    response = await browser.http.get(path)
    assert response.status_code == 303
    assert response.headers["location"].startswith("/login?then=%2F")
    live = await browser.http.get(path, headers={"hx-request": "true"})
    assert live.status_code == 401


async def test_log_in_and_out(browser: Browser) -> None:
    await log_in(browser, "root", "/topics")
    await browser.get("/topics")
    assert "orders" in browser.text
    assert "root" in browser.text
    assert SECRETS["root"] not in browser.page
    await browser.post("/logout")
    assert (await browser.http.get("/topics")).status_code == 303


async def test_the_cookie_changes_at_the_log_in(browser: Browser) -> None:
    """A cookie that somebody planted before is of no use."""
    await browser.get("/login")
    planted = browser.http.cookies["popmq_console"]
    await log_in(browser, "root")
    assert browser.http.cookies["popmq_console"] != planted
    browser.http.cookies.clear()
    browser.http.cookies.set("popmq_console", planted)
    assert (await browser.http.get("/topics")).status_code == 303


async def test_a_forged_cookie_is_nobody(browser: Browser) -> None:
    await log_in(browser, "root")
    real = browser.http.cookies["popmq_console"]
    visitor, _, mac = real.partition(".")
    for forged in (visitor, f"{visitor}.", f"{visitor}.{'0' * len(mac)}", f"x{real}", real[:-1]):
        browser.http.cookies.clear()
        browser.http.cookies.set("popmq_console", forged)
        assert (await browser.http.get("/topics")).status_code == 303, forged
    browser.http.cookies.clear()
    browser.http.cookies.set("popmq_console", real)
    await browser.get("/topics")


async def test_wrong_secrets_are_bounded(browser: Browser) -> None:
    await browser.get("/login")
    for _ in range(5):
        await browser.post("/login", 403, user="root", secret="wrong")
    await browser.post("/login", 429, user="root", secret=SECRETS["root"])
    assert "Too many tries" in browser.text


@pytest.mark.parametrize("user", ["nobody", "", "a,b", "ü", "a b", "x" * 5_000])
async def test_who_is_not_known_stays_out(browser: Browser, user: str) -> None:
    await browser.get("/login")
    await browser.post("/login", 403, user=user, secret="whatever-it-is")
    assert len(browser.console.sessions) == 0


async def test_a_user_who_is_disabled_is_out(browser: Browser) -> None:
    await log_in(browser, "root")
    await browser.get("/topics")
    calls = browser.console.calls
    assert isinstance(calls, FakeCluster)
    del calls.answers["users"]["root"]
    browser.console.answers.forget(next(iter(browser.console.sessions._sessions)))
    assert (await browser.http.get("/topics")).status_code == 303
    assert len(browser.console.sessions) == 0


async def test_a_session_ends_by_itself() -> None:
    clock = VirtualClock(1_000_000)
    async with browsing(guarded(), clock) as browser:
        await log_in(browser, "root")
        clock.advance(ConsoleConfig(endpoint="x").idle_ms)
        assert (await browser.http.get("/topics")).status_code == 303


@pytest.mark.parametrize(
    "then",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "/x\r\nset-cookie: a=b",
        "http:/evil",
        "",
        "topics",
    ],
)
def test_the_log_in_leads_nowhere_else(then: str) -> None:
    assert local_address(then, "") == "/"
    assert local_address(then, "/queue") == "/queue/"
    assert local_address("/topics?q=a", "") == "/topics?q=a"
    assert local_address("/topics", "/queue") == "/queue/"


# --- rights ---


async def test_what_a_user_may_not_do_is_not_offered(browser: Browser) -> None:
    await log_in(browser, "alice")
    await browser.get("/topics/orders")
    assert "Delete the topic" not in browser.page
    assert "Send a message" not in browser.page
    await browser.get("/")
    assert "You may not see the cluster" in browser.text
    await browser.get("/topics")
    assert "You may not list them" in browser.text
    await browser.get("/access")
    assert "Create a user" not in browser.page
    assert "Not known" in browser.text


async def test_and_is_refused_when_tried(browser: Browser) -> None:
    await log_in(browser, "alice")
    await browser.get("/topics/orders")
    await browser.post("/topics/orders/delete", 403, name="orders")
    await browser.post("/topics", 403, name="new", type="NORMAL", queues="1")
    assert "User:alice has no permission" in browser.text
    changes = browser.console.changes.all()
    assert [one.user for one in changes] == ["alice", "alice"]
    assert all(one.outcome.startswith("refused") for one in changes)


async def test_each_call_is_signed_as_the_visitor(browser: Browser) -> None:
    await log_in(browser, "alice")
    await browser.get("/topics/orders")
    calls = browser.console.calls
    assert isinstance(calls, FakeCluster)
    signed = [user_of(headers) for rpc, _, headers in calls.asked if rpc == "DescribeTopic"]
    assert signed == ["alice"]


async def test_two_visitors_do_not_share_answers() -> None:
    calls = guarded()
    async with browsing(calls, VirtualClock(1_000_000)) as browser:
        await log_in(browser, "root")
        await browser.get("/topics")
        browser.http.cookies.clear()
        await log_in(browser, "alice")
        await browser.get("/topics")
        assert "You may not list them" in browser.text


async def test_the_consoles_own_certificate_lets_nobody_in() -> None:
    """A proxy may know the console by its certificate: its visitors still log in."""
    known = admin.TestAccessResponse(allowed=True, username="console", authentication=True)
    async with browsing(FakeCluster(TestAccess=known)) as browser:
        assert (await browser.http.get("/topics")).status_code == 303


async def test_without_the_admin_secret_it_is_read_only() -> None:
    missing = CallFailed(Failure.DENIED, "TestAccess needs the admin secret")
    calls = FakeCluster(TestAccess=missing, ListTopics=admin.ListTopicsResponse())
    async with browsing(calls) as browser:
        await browser.get("/topics")
        assert "Read-only: TestAccess needs the admin secret" in browser.text
        assert "Create a topic" not in browser.page
