"""Calls of the Envoy front without a task: begun with their body, or served as all the others."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from popmq_proxy.front.direct import Caller
from popmq_proxy.front.envoy_calls import EnvoyCall, EnvoyCalls, task_factory
from popmq_proxy.front.events import END, START, Event, Receive, Send
from popmq_proxy.front.grpc_wire import framed

REQUEST = framed([b"request"])
WHOLE: Event = {"type": "http.request", "body": REQUEST, "more_body": False}


class Begun:
    """Begins what it may."""

    rpcs = frozenset({"/s/m"})

    def __init__(self) -> None:
        self.takes = True
        self.fails = False
        self.calls: list[tuple[bytes, Caller]] = []

    def begin(self, scope: Event, body: bytes, caller: Caller) -> bool:
        if self.fails:
            raise ZeroDivisionError
        if self.takes:
            self.calls.append((body, caller))
        return self.takes


class App:
    """What it is called for, because it was not begun, it remembers."""

    def __init__(self) -> None:
        self.direct: Any = Begun()
        self.called: list[bytes] = []

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        self.called.append(body)


class Pyvoy:
    """Calls as pyvoy does: a task of what the application returns, then its end is asked for."""

    def __init__(self, waiting_max: int = 16) -> None:
        self.app = App()
        self.calls = EnvoyCalls(self.app, waiting_max)
        self.errors: list[BaseException | None] = []
        asyncio.get_running_loop().set_task_factory(task_factory)

    def call(self, *events: Event, path: str = "/s/m") -> "list[Event]":
        coming, sent = list(events), list[Event]()

        def receive() -> Awaitable[Event]:
            future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
            if coming:
                future.set_result(coming.pop(0))
            return future

        def send(event: Event) -> Awaitable[None]:
            sent.append(event)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        scope: Event = {"path": path}
        begun = self.calls.take(scope, receive, send) or self.app(scope, receive, send)
        task: Any = asyncio.get_running_loop().create_task(begun)  # type: ignore[arg-type]
        task.add_done_callback(lambda ended: self.errors.append(ended.exception()))
        return sent


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_a_whole_request_is_begun_without_a_task_and_answered_in_three_events() -> None:
    pyvoy = Pyvoy()
    sent = pyvoy.call(WHOLE)
    await settle()
    ((body, caller),) = pyvoy.app.direct.calls
    assert (body, pyvoy.app.called, pyvoy.calls.waiting_count) == (REQUEST, [], 0)
    assert len(asyncio.all_tasks()) == 1, "this test's own"
    caller.answer(b"response")
    body_event = {"type": "http.response.body", "body": framed([b"response"]), "more_body": False}
    assert sent == [START, body_event, END]


async def test_a_request_whose_body_is_still_on_its_way_waits_without_a_task() -> None:
    pyvoy = Pyvoy()
    pyvoy.call()
    await settle()
    assert (pyvoy.calls.waiting_count, len(asyncio.all_tasks())) == (1, 1)


def refuses(pyvoy: Pyvoy) -> None:
    pyvoy.app.direct.takes = False


@pytest.mark.parametrize(
    ("events", "before", "served"),
    [
        pytest.param([WHOLE], refuses, REQUEST, id="not as usual"),
        pytest.param(
            [{**WHOLE, "body": b"one ", "more_body": True}, {**WHOLE, "body": b"two"}],
            lambda _: None,
            b"one two",
            id="in pieces",
        ),
        pytest.param([{"type": "http.disconnect"}], lambda _: None, b"", id="client gone"),
    ],
)
async def test_whatever_else_comes_is_served_by_the_application_from_its_first_byte(
    events: list[Event], before: Callable[[Pyvoy], None], served: bytes
) -> None:
    pyvoy = Pyvoy()
    before(pyvoy)
    pyvoy.call(*events)
    await settle()
    assert (pyvoy.app.direct.calls, pyvoy.app.called) == ([], [served])
    assert pyvoy.errors == [None]


async def test_what_was_begun_can_still_be_served_by_the_application() -> None:
    pyvoy = Pyvoy()
    pyvoy.call(WHOLE)
    await settle()
    pyvoy.app.direct.calls[0][1].begin_task()
    await settle()
    assert pyvoy.app.called == [REQUEST]


async def test_an_error_while_beginning_is_told_to_pyvoy_which_ends_the_call() -> None:
    pyvoy = Pyvoy()
    pyvoy.app.direct.fails = True
    pyvoy.call(WHOLE)
    await settle()
    assert [type(error) for error in pyvoy.errors] == [ZeroDivisionError]


async def test_calls_of_other_methods_and_those_above_the_limit_are_the_applications() -> None:
    pyvoy = Pyvoy(waiting_max=2)
    pyvoy.call(WHOLE, path="/s/other")
    for _ in range(3):
        pyvoy.call(WHOLE)
    await settle()
    assert len(pyvoy.app.direct.calls) == 2
    assert pyvoy.app.called == [REQUEST, REQUEST]


async def test_the_factory_makes_tasks_of_everything_else() -> None:
    async def one() -> int:
        return 1

    asyncio.get_running_loop().set_task_factory(task_factory)
    task = asyncio.create_task(one(), name="named")
    assert await task == 1
    assert (task.get_name(), isinstance(task, EnvoyCall)) == ("named", False)
