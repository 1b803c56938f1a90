"""An app's handlers against a standalone: what becomes of their messages."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from harness.processes import standalone as server_process
from integration.served import dead_letters, left, make_group, running, send_all, until

from popmq import App, Client, Json, Message, ReceivedMessage, Reject, Retry

Body = Callable[[ReceivedMessage], Awaitable[None]]
current = contextvars.ContextVar("current", default=b"nobody")


async def test_each_outcome_of_a_handler(endpoint: str) -> None:
    await make_group(endpoint, "g")
    seen: list[tuple[bytes, int]] = []
    app = App(endpoint)

    @app.handler("t", "g", concurrency=4, retry=[0.1])
    async def handle(message: ReceivedMessage) -> None:
        seen.append((message.body, message.delivery_attempt))
        if message.delivery_attempt == 1 and message.body == b"raise":
            raise ValueError("not today")
        if message.delivery_attempt == 1 and message.body == b"retry":
            raise Retry(0.2, "busy")
        if seen.count((message.body, 1)) == 1 and message.body == b"uncounted":
            raise Retry(0.1, "not ready", counted=False)
        if message.body == b"reject":
            raise Reject("not an order")

    async with Client(endpoint) as client:
        bodies = [b"done", b"raise", b"retry", b"uncounted", b"reject"]
        await send_all(client, "t", [Message(body=body) for body in bodies])
    async with running(app):
        await until(lambda: len(seen) >= 8)
    assert sorted(seen) == sorted(
        [
            (b"done", 1),
            (b"raise", 1),
            (b"raise", 2),
            (b"retry", 1),
            (b"retry", 2),
            (b"uncounted", 1),
            (b"uncounted", 1),
            (b"reject", 1),
        ]
    )
    (letter,) = await dead_letters(endpoint, "g")
    assert letter.reason == "not an order"
    assert await left(endpoint, "g") == 0


async def test_it_holds_no_more_than_it_can_start(endpoint: str) -> None:
    await make_group(endpoint, "g")
    app, free = App(endpoint), asyncio.Event()
    running_now: set[bytes] = set()
    most = 0

    @app.handler("t", "g", concurrency=3, prefetch=1)
    async def handle(message: ReceivedMessage) -> None:
        nonlocal most
        running_now.add(message.body)
        most = max(most, len(running_now))
        await free.wait()
        running_now.discard(message.body)

    async with Client(endpoint) as client:
        await send_all(client, "t", [Message(body=b"%d" % i) for i in range(10)])
        async with running(app):
            await until(lambda: len(running_now) == 3)
            others = await client.receive("t", "g", max_messages=32, wait_s=2)
            assert len(others) == 10 - 4
            free.set()
            await client.ack(*others)
    assert most == 3
    assert await left(endpoint, "g") == 0


async def test_a_message_group_keeps_its_order_over_failures(endpoint: str) -> None:
    await make_group(endpoint, "g", fifo=True)
    app = App(endpoint)
    done: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    failed: set[bytes] = set()
    side_by_side = 0
    inside = 0

    @app.handler("t", "g", concurrency=8, retry=[0.05])
    async def handle(message: ReceivedMessage) -> None:
        nonlocal inside, side_by_side
        inside += 1
        side_by_side = max(side_by_side, inside)
        await asyncio.sleep(0.01)
        inside -= 1
        name, number = message.body.decode().split()
        if number in ("2", "5") and message.body not in failed:
            failed.add(message.body)
            raise ValueError("once")
        assert message.message_group == name
        done[name].append(int(number))

    async with Client(endpoint) as client:
        messages = [
            Message(body=f"{name} {i}".encode(), message_group=name)
            for i in range(8)
            for name in done
        ]
        await send_all(client, "t", messages)
        async with running(app):
            await until(lambda: sum(map(len, done.values())) >= 24)
    assert done == {name: list(range(8)) for name in "abc"}
    assert side_by_side > 1


def compute(seconds: float) -> int:
    """Holds the loop and most of the interpreter."""
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        rounds += 1
    return rounds


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(tmp_path: Path) -> None:
    env = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "50"}
    with server_process(tmp_path, env) as server:
        await make_group(server.endpoint, "g")
        app = App(server.endpoint)
        attempts: list[int] = []

        @app.handler("t", "g", lease_s=2.0)
        async def handle(message: ReceivedMessage) -> None:
            attempts.append(message.delivery_attempt)
            compute(6.5)

        async with Client(server.endpoint) as client:
            await client.send("t", b"x")
            async with running(app):
                await until(lambda: bool(attempts))
            assert await client.receive("t", "g", wait_s=3) == []
        assert attempts == [1]


async def test_a_lease_is_not_renewed_for_ever(endpoint: str) -> None:
    await make_group(endpoint, "g")
    app, stuck = App(endpoint, stop_s=0.1), asyncio.Event()

    @app.handler("t", "g", lease_s=0.4, lease_longest_s=0.6)
    async def handle(message: ReceivedMessage) -> None:
        await stuck.wait()

    async with Client(endpoint) as client:
        await client.send("t", b"x")
        async with running(app):
            (message,) = await client.receive("t", "g", wait_s=20)
            while message.delivery_attempt == 1:  # it was here first
                await client.nack(message, 0, counted=True)
                (message,) = await client.receive("t", "g", wait_s=20)
            await client.ack(message)


async def test_handlers_share_tasks_and_do_not_notice(endpoint: str) -> None:
    """One that ends its own task takes no other message with it, and no context is passed on."""
    await make_group(endpoint, "g")
    app = App(endpoint)
    seen: list[tuple[bytes, int]] = []
    tasks: set[asyncio.Task[object] | None] = set()
    before: list[bytes] = []

    @app.handler("t", "g", concurrency=64)
    async def handle(message: ReceivedMessage) -> None:
        task = asyncio.current_task()
        tasks.add(task)
        before.append(current.get())
        current.set(message.body)
        seen.append((message.body, message.delivery_attempt))
        number = int(message.body)
        if task is not None and number % 10 == 0 and seen.count(seen[-1]) == 1:
            task.cancel()
            if number % 20 == 0:
                await asyncio.sleep(0)
        elif number % 3 == 0:
            await asyncio.sleep(0.001)
        assert current.get() == message.body

    async with Client(endpoint) as client:
        await send_all(client, "t", [Message(body=b"%d" % i) for i in range(300)])
    async with running(app):
        await until(lambda: len(seen) >= 300 + 15)
    assert set(seen) == {(b"%d" % i, 1) for i in range(300)}
    assert len(seen) == 300 + 15  # those that were cancelled while they waited were given back
    assert set(before) == {b"nobody"}
    assert len(tasks) < 200
    assert await left(endpoint, "g") == 0


async def test_handlers_that_never_wait_leave_the_loop_its_turn(endpoint: str) -> None:
    await make_group(endpoint, "g")
    app, turns = App(endpoint), 0
    seen: list[int] = []

    @app.handler("t", "g", concurrency=32)
    async def handle(message: ReceivedMessage) -> None:
        seen.append(turns)
        compute(0.02)

    async with Client(endpoint) as client:
        await send_all(client, "t", [Message(body=b"%d" % i) for i in range(20)])

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with running(app):
        await until(lambda: len(seen) == 20)
    counting.cancel()
    assert len(set(seen)) == 20


async def test_a_function_without_async_runs_beside_the_loop(endpoint: str) -> None:
    await make_group(endpoint, "g")
    app = App(endpoint)
    names: list[str] = []
    together = threading.Barrier(2)

    @app.handler("t", "g", concurrency=2)
    def handle(message: ReceivedMessage) -> None:
        together.wait(20)
        names.append(threading.current_thread().name)

    async with Client(endpoint) as client:
        await send_all(client, "t", [Message(body=b"1"), Message(body=b"2")])
    async with running(app):
        await until(lambda: len(names) == 2)
    assert len(set(names)) == 2
    assert await left(endpoint, "g") == 0


async def test_a_body_that_cannot_be_read_is_rejected(endpoint: str) -> None:
    await make_group(endpoint, "g")
    app = App(endpoint)
    values: list[object] = []

    @app.handler("t", "g", serializer=Json())
    async def handle(value: object, message: ReceivedMessage) -> None:
        values.append(value)

    async with Client(endpoint) as client:
        await client.send("t", b"{")
        await client.producer(Json()).send("t", {"price": 3})
    async with running(app):
        await until(lambda: len(values) == 1)
        async with asyncio.timeout(60):  # from another queue: it may come after the good one
            while not (letters := await dead_letters(endpoint, "g")):  # noqa: ASYNC110 - a server
                await asyncio.sleep(0.02)
    assert values == [{"price": 3}]
    assert letters[0].reason.startswith("its body cannot be read")


async def test_a_stop_gives_back_what_it_cannot_finish(endpoint: str) -> None:
    await make_group(endpoint, "g")
    app, begun = App(endpoint, stop_s=0.2), asyncio.Event()

    @app.handler("t", "g", concurrency=1, prefetch=3)
    async def handle(message: ReceivedMessage) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Client(endpoint) as client:
        await send_all(client, "t", [Message(body=b"%d" % i) for i in range(4)])
        async with running(app):
            await begun.wait()
        messages: list[ReceivedMessage] = []
        while len(messages) < 4:
            messages += await client.receive("t", "g", wait_s=20)
        assert {message.delivery_attempt for message in messages} == {1}
        await client.ack(*messages)


class Once:
    """Idempotence by body."""

    def __init__(self) -> None:
        self.started: list[float | None] = []
        self.seen: set[bytes] = set()

    async def start(self, retention_s: float | None) -> None:
        self.started.append(retention_s)

    async def run(self, message: ReceivedMessage, handle: Body) -> bool:
        if message.body in self.seen:
            return False
        self.seen.add(message.body)
        await handle(message)
        return True


async def test_a_duplicate_is_acked_and_not_handled(endpoint: str) -> None:
    await make_group(endpoint, "g")
    guard, app = Once(), App(endpoint, retention_s=3_600)
    handled: list[bytes] = []

    @app.handler("t", "g", idempotent=guard)
    async def handle(message: ReceivedMessage) -> None:
        handled.append(message.body)

    async with Client(endpoint) as client:
        await send_all(client, "t", [Message(body=b) for b in (b"1", b"1", b"2", b"1")])
    async with running(app):
        await until(lambda: len(handled) == 2)
        await asyncio.sleep(0.2)
    assert sorted(handled) == [b"1", b"2"]
    assert guard.started == [3_600]


async def test_a_guard_starts_behind_the_hooks_that_may_make_its_table(endpoint: str) -> None:
    await make_group(endpoint, "g")
    guard, app = Once(), App(endpoint, retention_s=3_600)
    before: list[list[float | None]] = []

    @app.on_startup
    def make_table() -> None:
        before.append(list(guard.started))

    @app.handler("t", "g", idempotent=guard)
    async def handle(message: ReceivedMessage) -> None: ...

    async with running(app):
        await until(lambda: bool(guard.started))
    assert before == [[]]


async def test_an_app_that_can_never_work_says_so(endpoint: str) -> None:
    app = App(endpoint)

    @app.handler("t", "g", sql="price >")
    async def handle(message: ReceivedMessage) -> None: ...

    with pytest.raises(Exception, match="column 8"):
        await app.run(signals=False)
    with pytest.raises(RuntimeError, match="no handler"):
        await App(endpoint).run()
