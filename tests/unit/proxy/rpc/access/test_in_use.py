"""Do users and clients have only so many calls and connections, and create only so much?"""

import asyncio
import random
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.access import GuardedProxy, allow, context
from unit.proxy.rpc.access.conftest import ROOT, TwoBrokers

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_proxy.rpc.access import limiter
from popmq_proxy.rpc.access.in_use import Places
from popmq_proxy.rpc.shared import client_connection
from popmq_proxy.rpc.shared.client_connection import ClientConnection
from popmq_proxy.rpc.shared.context import CallContext

ALICE, BOB = context("alice", "alice-secret"), context("bob", "bob-secret")


@pytest.fixture
def two(cluster: TwoBrokers) -> TwoBrokers:
    ask = cluster.proxy.ask
    for user in ("alice", "bob"):
        ask(ROOT, "CreateUser", admin.CreateUserRequest(username=user, secret=f"{user}-secret"))
        allow(cluster.proxy, ROOT, user, ("*", "All"))
    for topic in ("t", "u"):
        ask(ROOT, "CreateTopic", admin.CreateTopicRequest(topic=admin.Topic(name=topic, queues=1)))
    ask(ROOT, "CreateGroup", admin.CreateGroupRequest(group=admin.Group(name="g")))
    return cluster


def limit(two: TwoBrokers, subject: str, **limits: int) -> None:
    request = admin.SetLimitsRequest(limits=admin.Limits(subject=subject, **limits))
    two.proxy.ask(ROOT, "SetLimits", request)


def sending(topic: str = "t") -> service.SendMessageRequest:
    message = v2.Message(
        topic=v2.Resource(name=topic),
        body=b"x",
        system_properties=v2.SystemProperties(message_id="m"),
    )
    return service.SendMessageRequest(messages=[message])


def send(proxy: GuardedProxy, ctx: CallContext, topic: str = "t") -> v2.Status:
    status: v2.Status = proxy.ask(ctx, "SendMessage", sending(topic)).status
    return status


def receiving(group: str = "g", wait_ms: int = 200) -> service.ReceiveMessageRequest:
    return service.ReceiveMessageRequest(
        group=v2.Resource(name=group),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="t")),
        batch_size=1,
        invisible_duration=Duration(seconds=20),
        long_polling_timeout=Duration(nanos=wait_ms * 1_000_000),
    )


async def waiting(two: TwoBrokers, *contexts: CallContext) -> list["asyncio.Task[Any]"]:
    receive = two.proxy.methods.answers["ReceiveMessage"]
    tasks = [asyncio.ensure_future(receive(ctx, receiving())) for ctx in contexts]
    await asyncio.sleep(0.05)
    return tasks


def test_calls_under_way_are_counted_and_given_back(two: TwoBrokers) -> None:
    limit(two, "User:alice", calls=2)
    answer = two.proxy.methods.unary["SendMessage"]

    async def steps() -> None:
        polls = await waiting(two, ALICE, ALICE)
        refused = (await answer(ALICE, sending("u"))).status
        assert refused.code == v2.TOO_MANY_REQUESTS
        assert "User:alice may have 2 calls under way" in refused.message
        assert "try again in 1000 ms" in refused.message
        assert (await answer(BOB, sending("u"))).status.code == v2.OK
        await asyncio.gather(*polls)
        assert (await answer(ALICE, sending("u"))).status.code == v2.OK

    for _ in range(2):
        two.proxy.run(steps())


def test_each_client_has_calls_of_its_own(two: TwoBrokers) -> None:
    limit(two, "Client:*", calls=1)
    other = context("alice", "alice-secret", client_id="other")
    answer = two.proxy.methods.unary["SendMessage"]

    async def steps() -> list[int]:
        polls = await waiting(two, ALICE)
        codes = [(await answer(one, sending())).status.code for one in (ALICE, other)]
        await asyncio.gather(*polls)
        return codes

    assert two.proxy.run(steps()) == [v2.TOO_MANY_REQUESTS, v2.OK]


def test_a_call_whose_client_is_gone_is_given_back(two: TwoBrokers) -> None:
    limit(two, "User:alice", calls=1)

    async def steps() -> int:
        (poll,) = await waiting(two, ALICE)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        answer = two.proxy.methods.unary["SendMessage"]
        code: int = (await answer(ALICE, sending())).status.code
        return code

    assert two.proxy.run(steps()) == v2.OK


def test_a_limit_that_changes_meanwhile_gives_back_what_was_taken(two: TwoBrokers) -> None:
    places = two.proxy.methods.guard.limiter.in_use.calls
    limit(two, "User:alice", calls=3)

    async def begin() -> list["asyncio.Task[Any]"]:
        return await waiting(two, ALICE, ALICE)

    polls = two.proxy.run(begin())
    limit(two, "User:alice")
    two.proxy.run(asyncio.wait(polls))
    assert places._taken == {}


@pytest.mark.parametrize("ending", ["answer", "declined", "not begun", "broken"])
def test_a_send_without_a_task_is_given_back_however_it_ends(two: TwoBrokers, ending: str) -> None:
    limit(two, "User:alice", calls=1)
    replies: list[Any] = []

    def begin(ctx: CallContext, request: Any, on_reply: Any) -> Any:
        if ending == "broken":
            raise RuntimeError
        if ending == "not begun":
            return request
        replies.append(on_reply)
        return None

    guarded = two.proxy.methods.guard.guarding_begin(begin)
    for _ in range(2):
        request = sending()
        if ending == "broken":
            with pytest.raises(RuntimeError):
                guarded(ALICE, request, lambda *_: None)
            continue
        declined = guarded(ALICE, request, lambda *_: None)
        if ending == "not begun":
            assert declined is request
            continue
        assert declined is None
        assert guarded(ALICE, request, lambda *_: None) is request  # one too many
        replies.pop()("response" if ending == "answer" else None, None)
    assert two.proxy.methods.guard.limiter.in_use.calls._taken == {}


def on(ctx: CallContext, connection: ClientConnection) -> CallContext:
    return ctx._replace(connection=connection)


def test_a_connection_belongs_to_whom_its_first_call_names(two: TwoBrokers) -> None:
    limit(two, "User:alice", connections=2)
    first, second, third = (ClientConnection() for _ in range(3))
    codes = [send(two.proxy, on(ALICE, one)).code for one in (first, second, first)]
    assert codes == [v2.OK] * 3
    refused = send(two.proxy, on(ALICE, third))
    assert refused.code == v2.TOO_MANY_REQUESTS
    assert "User:alice may have 2 connections at a time" in refused.message
    assert send(two.proxy, on(BOB, third)).code == v2.OK
    first.close()
    assert send(two.proxy, on(ALICE, third)).code == v2.OK
    assert send(two.proxy, on(ALICE, second)).code == v2.OK


def test_a_call_that_comes_behind_its_connections_end_takes_no_place(two: TwoBrokers) -> None:
    limit(two, "User:*", connections=1)
    gone, other = ClientConnection(), ClientConnection()
    gone.close()
    assert send(two.proxy, on(ALICE, gone)).code == v2.OK
    assert send(two.proxy, on(ALICE, other)).code == v2.OK


def test_a_wrong_signature_takes_nobodys_connection(two: TwoBrokers) -> None:
    limit(two, "User:alice", connections=1)
    stranger = on(context("alice", "wrong-secret"), ClientConnection())
    assert send(two.proxy, stranger).code == v2.UNAUTHORIZED
    assert send(two.proxy, on(ALICE, ClientConnection())).code == v2.OK


def test_a_certificate_names_a_user_too(two: TwoBrokers) -> None:
    limit(two, "User:alice", connections=1)
    shown = ALICE._replace(signature=None, certificate_user="alice")
    assert send(two.proxy, on(shown, ClientConnection())).code == v2.OK
    assert send(two.proxy, on(ALICE, ClientConnection())).code == v2.TOO_MANY_REQUESTS


def test_only_so_many_clients_of_a_connection_are_remembered(
    two: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer-7 proxy brings thousands on one."""
    monkeypatch.setattr(client_connection, "COUNTED_MAX", 3)
    limit(two, "Client:*", connections=1)
    connection = ClientConnection()
    for number in range(10):
        client = context("alice", "alice-secret", client_id=f"c{number}")
        assert send(two.proxy, on(client, connection)).code == v2.OK
    places = two.proxy.methods.guard.limiter.in_use.connections
    assert len(connection.counted) == len(places._taken) == 3
    connection.close()
    assert places._taken == {}


def test_random_histories_end_with_nothing_taken() -> None:
    """Whatever limits do meanwhile."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    places = Places("have {limit}", lambda one: one.connections)
    taken = [f"User:u{rng.randrange(5)}" for _ in range(200)]
    for subject in taken:
        places.take(subject)
    rng.shuffle(taken)
    for subject in taken:
        places.give(subject)
    assert places._taken == {}


@pytest.fixture
def open_to_all(two: TwoBrokers) -> GuardedProxy:
    """Users are known, and there are no policies, so topics and groups are made on first use."""
    proxy = GuardedProxy(two.a, two.b, authorization=False)
    proxy.refresh()
    return proxy


def test_a_user_creates_so_much_an_hour_by_using_it(
    two: TwoBrokers, open_to_all: GuardedProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Time:
        now_s = 100.0

        def monotonic(self) -> float:
            return self.now_s

    time = Time()
    monkeypatch.setattr(limiter, "time", time)
    limit(two, "User:alice", creations_per_h=2)
    open_to_all.refresh()
    assert send(open_to_all, ALICE, "one").code == v2.OK
    assert open_to_all.ask(ALICE, "ReceiveMessage", receiving("two", 0)).code != (
        v2.TOO_MANY_REQUESTS
    )
    refused = send(open_to_all, ALICE, "three")
    assert refused.code == v2.TOO_MANY_REQUESTS
    assert "User:alice may create 2 topics and groups an hour by using them" in refused.message
    assert "try again in 1800001 ms" in refused.message
    assert open_to_all.ask(ALICE, "ReceiveMessage", receiving("four", 0)).code == (
        v2.TOO_MANY_REQUESTS
    )
    assert send(open_to_all, ALICE, "one").code == v2.OK  # it is there
    assert send(open_to_all, BOB, "three").code == v2.OK
    time.now_s += 1_801
    assert send(open_to_all, ALICE, "five").code == v2.OK


def test_limits_of_all_kinds_are_set_and_listed(two: TwoBrokers) -> None:
    limit(two, "User:alice", calls=1_000, connections=20, creations_per_h=30)
    (listed,) = two.proxy.ask(ROOT, "ListLimits", admin.ListLimitsRequest()).limits
    assert (listed.calls, listed.connections, listed.creations_per_h) == (1_000, 20, 30)
    late = GuardedProxy(two.a, two.b)
    late.refresh()
    assert late.methods.access.current.limits == two.proxy.methods.access.current.limits
