"""gRPC as an ASGI application: what leaves for each kind of request, and what is undone."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from popmq_common.errors import TopicNotFound
from popmq_common.process import logs
from popmq_proxy.front.client_budgets import Account, Accounts, ClientBudgets
from popmq_proxy.front.events import ClientDisconnectedError
from popmq_proxy.front.grpc_wire import PREFIX, Code, framed
from popmq_proxy.front.request_handler import POLL_BYTES, RequestHandler
from popmq_proxy.front.rpcs import Rpc, RpcKind
from popmq_proxy.rpc.shared.answer import Answer

PATH = "/test.Service/"


class Text:
    """Stands for a protobuf message."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    def SerializeToString(self) -> bytes:
        return self.text


def decode(data: bytes) -> Text:
    if data == b"no protobuf":
        raise DecodeError("bad bytes")
    return Text(data)


class Exchange:
    """One RPC: events to the application, events from it."""

    def __init__(self, *bodies: bytes, gone_at: int | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._bodies = list(bodies)
        self._gone_at = gone_at

    async def receive(self) -> dict[str, Any]:
        if not self._bodies:
            return {"type": "http.disconnect"}
        body = self._bodies.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self._bodies)}

    def whole(self, *_: Any) -> bool:
        """The client takes no answer in one go."""
        return False

    async def __call__(self, event: Any) -> None:
        if self._gone_at == len(self.sent):
            raise ClientDisconnectedError()
        self.sent.append(event)

    @property
    def body(self) -> bytes:
        return b"".join(event.get("body", b"") for event in self.sent)

    @property
    def status(self) -> int:
        headers = [pair for event in self.sent for pair in event.get("headers", [])]
        return int(dict(headers)[b"grpc-status"])


def account(budgets: ClientBudgets) -> Accounts:
    """Of a connection."""
    address = Account()
    return budgets.open(Accounts(address, address, address))


class Service:
    """Handlers of every kind, and what they saw."""

    def __init__(self, bytes_max: int = 1_000) -> None:
        self.undone = 0
        self.asked = 0
        self.waits_for: asyncio.Event | None = None
        kinds: list[tuple[str, RpcKind, Any]] = [
            ("Unary", RpcKind.UNARY, self.unary),
            ("Answer", RpcKind.ANSWER, self.answer),
            ("Stream", RpcKind.STREAM, self.stream),
            ("Bidi", RpcKind.BIDI, self.bidi),
        ]
        rpcs = [Rpc("test.Service", name, kind, decode, handler) for name, kind, handler in kinds]
        for name, kind, handler in (
            ("Small", RpcKind.UNARY, self.unary),
            ("SmallBidi", RpcKind.BIDI, self.bidi),
        ):
            rpcs.append(Rpc("test.Service", name, kind, decode, handler, request_bytes_max=100))
        budget = bytes_max * 3 // 2
        self.budgets = ClientBudgets(calls_max=8, received_bytes_max=budget, unread_bytes_max=1_000)
        self.accounts = account(self.budgets)
        self.app = RequestHandler(rpcs, logs.get("test"), self.budgets, request_bytes_max=bytes_max)

    async def unary(self, ctx: Any, request: Text) -> Text:
        if request.text == b"missing":
            raise TopicNotFound(topic="t")
        if request.text == b"bug":
            raise ZeroDivisionError
        if self.waits_for is not None:
            await self.waits_for.wait()
        return Text(b"<" + request.text + b">")

    async def answer(self, ctx: Any, request: Text) -> Answer:
        self.asked += 1
        if self.waits_for is not None:
            await self.waits_for.wait()

        async def undo() -> None:
            self.undone += 1

        return Answer(20000, [b"one", b"two"], undo)

    async def stream(self, ctx: Any, request: Text) -> AsyncIterator[Text]:
        yield Text(b"first")
        raise TopicNotFound(topic="t")

    async def bidi(self, ctx: Any, requests: AsyncIterator[Text]) -> AsyncIterator[Text]:
        async for request in requests:
            yield Text(request.text.upper())

    async def run(self, name: str, exchange: Exchange, **scope: Any) -> Exchange:
        usual = [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
        full = {
            "method": "POST",
            "path": PATH + name,
            "named": dict([*usual, *scope.pop("headers", [])]),
            "peer": "192.0.2.7:4711",
            "accounts": self.accounts,
            "whole": exchange.whole,
            **scope,
        }
        await self.app(full, exchange.receive, exchange)
        return exchange


@pytest.fixture
def service() -> Service:
    return Service()


async def test_a_call_is_answered_with_headers_message_and_trailers(service: Service) -> None:
    done = await service.run("Unary", Exchange(framed([b"hello"])))
    assert [event["type"].rpartition(".")[2] for event in done.sent] == [
        "start",
        "body",
        "trailers",
    ]
    assert (done.body, done.status) == (framed([b"<hello>"]), Code.OK)


@pytest.mark.parametrize("cut", range(11))
async def test_a_request_may_be_cut_anywhere(service: Service, cut: int) -> None:
    whole = framed([b"hello"])
    done = await service.run("Unary", Exchange(whole[:cut], whole[cut:]))
    assert done.body == framed([b"<hello>"])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", Code.INTERNAL),
        (framed([b"hello"])[:-1], Code.INTERNAL),
        (framed([b"one", b"two"]), Code.INTERNAL),
        (framed([b"no protobuf"]), Code.INTERNAL),
        (framed([b"bug"]), Code.INTERNAL),
        (framed([b"missing"]), 5),
        (framed([bytes(1_001)]), Code.RESOURCE_EXHAUSTED),
    ],
)
async def test_what_cannot_be_served_ends_with_a_status(
    service: Service, body: bytes, code: int
) -> None:
    done = await service.run("Unary", Exchange(body))
    assert (done.status, done.body) == (code, b"")


async def test_an_answer_leaves_as_one_piece(service: Service) -> None:
    done = await service.run("Answer", Exchange(framed([b""])))
    assert [event.get("body") for event in done.sent] == [None, framed([b"one", b"two"]), None]
    assert service.undone == 0


@pytest.mark.parametrize("gone_at", [0, 1, 2])
async def test_an_answer_that_cannot_leave_is_undone(service: Service, gone_at: int) -> None:
    await service.run("Answer", Exchange(framed([b""]), gone_at=gone_at))
    assert service.undone == 1


async def test_a_stream_may_end_with_an_error_after_its_first_response(service: Service) -> None:
    done = await service.run("Stream", Exchange(framed([b""])))
    assert (done.body, done.status) == (framed([b"first"]), 5)


async def test_both_sides_may_stream(service: Service) -> None:
    done = await service.run("Bidi", Exchange(framed([b"a", b"b"]), b"", framed([b"c"])))
    assert (done.body, done.status) == (framed([b"A", b"B", b"C"]), Code.OK)


async def test_a_client_that_goes_in_the_middle_of_its_request_gets_nothing(
    service: Service,
) -> None:
    exchange = Exchange(framed([b"hello"])[:-1])
    receive = exchange.receive

    async def more_to_come() -> dict[str, Any]:
        return {**await receive(), "more_body": True}

    exchange.receive = more_to_come  # type: ignore[method-assign]
    assert (await service.run("Unary", exchange)).sent == []


async def test_unknown_methods_and_other_protocols(service: Service) -> None:
    assert (await service.run("Nothing", Exchange(b""))).status == Code.UNIMPLEMENTED
    page = await service.run("", Exchange(b""), method="GET", headers=[(b"content-type", b"")])
    assert page.sent[0]["status"] == 405
    assert b"gRPC" in page.body


@pytest.mark.parametrize(
    ("timeout", "code"),
    [(b"0n", Code.DEADLINE_EXCEEDED), (b"soon", Code.INTERNAL), (b"5S", Code.OK)],
)
async def test_deadlines(service: Service, timeout: bytes, code: int) -> None:
    headers = [(b"grpc-timeout", timeout)]
    assert (await service.run("Unary", Exchange(framed([b"x"])), headers=headers)).status == code


async def test_unfinished_requests_share_a_bound(service: Service) -> None:
    """Two clients that send most of a message each, and then nothing for a while."""
    waits = asyncio.Event()
    first = Exchange(framed([bytes(1_000)])[:900], b"")
    receive = first.receive

    async def receive_slowly() -> dict[str, Any]:
        if len(first._bodies) == 1:
            await waits.wait()
        return await receive()

    first.receive = receive_slowly  # type: ignore[method-assign]
    task = asyncio.create_task(service.run("Unary", first))
    await asyncio.sleep(0)
    refused = await service.run("Unary", Exchange(framed([bytes(1_000)])[:900], b""))
    assert refused.status == Code.RESOURCE_EXHAUSTED
    waits.set()
    assert (await task).status == Code.INTERNAL  # it ended in the middle
    assert service.budgets.request_buffer.taken == 0


async def test_a_call_that_takes_one_message_ends_at_the_second(service: Service) -> None:
    """However many are on their way."""
    endless = Exchange(*[framed([b"x"])] * 1_000)
    assert (await service.run("Unary", endless)).status == Code.INTERNAL
    assert len(endless._bodies) == 998
    assert service.budgets.request_buffer.taken == 0


@pytest.mark.parametrize("name", ["Small", "SmallBidi"])
@pytest.mark.parametrize(("size", "code"), [(100, Code.OK), (101, Code.RESOURCE_EXHAUSTED)])
async def test_an_rpc_may_have_a_bound_of_its_own(
    service: Service, name: str, size: int, code: int
) -> None:
    packed = gzip.compress(bytes(size))
    for body in (framed([bytes(size)]), PREFIX.pack(1, len(packed)) + packed):
        done = await service.run(name, Exchange(body), headers=[(b"grpc-encoding", b"gzip")])
        assert done.status == code


@pytest.mark.parametrize(("size", "counts"), [(POLL_BYTES, False), (POLL_BYTES + 1, True)])
async def test_a_large_request_for_messages_counts_while_it_waits(size: int, counts: bool) -> None:
    service = Service(bytes_max=10_000)
    service.waits_for = asyncio.Event()
    waiting = asyncio.create_task(service.run("Answer", Exchange(framed([bytes(size)]))))
    await asyncio.sleep(0)
    assert service.asked == 1
    assert service.budgets.request_buffer.taken == (size if counts else 0)
    service.waits_for.set()
    assert (await waiting).status == Code.OK
    assert service.budgets.request_buffer.taken == 0


async def test_what_a_message_is_unpacked_counts(service: Service) -> None:
    """Two messages of a few bytes that are 1,000 each: the second does not fit beside the first,
    whose handler has not answered."""
    packed = gzip.compress(bytes(1_000))
    body = PREFIX.pack(1, len(packed)) + packed
    headers = [(b"grpc-encoding", b"gzip")]
    answered = asyncio.Event()
    service.waits_for = answered
    first = asyncio.create_task(service.run("Unary", Exchange(body), headers=headers))
    await asyncio.sleep(0)
    second = await service.run("Unary", Exchange(body), headers=headers)
    assert second.status == Code.RESOURCE_EXHAUSTED
    answered.set()
    assert (await first).status == 0
    assert service.budgets.request_buffer.taken == 0


async def test_an_answer_that_finds_no_room_is_given_back(service: Service) -> None:
    others = account(service.budgets).answer_buffer
    service.budgets.answer_buffer.take(others, 990)
    refused = await service.run("Answer", Exchange(framed([b"x"])))
    assert (refused.status, service.undone) == (Code.RESOURCE_EXHAUSTED, 1)
    service.budgets.answer_buffer.give(others, 700)
    taken = await service.run("Answer", Exchange(framed([b"x"])))
    assert (taken.status, service.undone) == (0, 1)


async def test_nothing_is_asked_for_while_there_is_no_room(service: Service) -> None:
    others = account(service.budgets).answer_buffer
    service.budgets.answer_buffer.take(others, 1_000)
    call = Exchange(framed([b"x"]))
    waiting = asyncio.create_task(service.run("Answer", call))
    for _ in range(5):
        await asyncio.sleep(0)
    assert service.asked == 0
    service.budgets.answer_buffer.give(others, 1_000)
    await waiting
    assert (call.status, service.asked) == (0, 1)


async def test_rpcs_are_bounded(service: Service) -> None:
    service.budgets.calls.taken = 8
    assert (await service.run("Unary", Exchange(framed([b"x"])))).status == Code.RESOURCE_EXHAUSTED
