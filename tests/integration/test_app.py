"""An app's life: what it declares, when it is ready, what is called around its handlers."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from fast_depends import Depends, dependency_provider
from integration.served import running, serving, until

from popmq import App, Client, Json, ReceivedMessage, RefusedByServer, Reject, Topic
from popmq.sync import SyncClient
from popmq.testing import PopmqBroker

Next = Callable[[ReceivedMessage], Awaitable[None]]


async def test_a_new_group_gets_what_is_sent_once_the_app_is_ready(tmp_path: Path) -> None:
    """In production a group that nobody has made starts at the last message."""
    seen: list[bytes] = []
    async with serving(tmp_path) as endpoint, Client(endpoint) as client:
        app = App(endpoint)

        @app.handler("t", "g")
        async def handle(body: bytes) -> None:
            seen.append(body)

        await client.send("t", b"before")
        async with app:
            await client.send("t", b"after")
            await until(lambda: bool(seen))
    assert seen == [b"after"]


async def test_what_is_declared_is_there_before_the_first_message(tmp_path: Path) -> None:
    seen: list[bytes] = []
    async with serving(tmp_path) as endpoint, Client(endpoint) as client:
        app = App(endpoint)
        app.topic("t", type="FIFO", queues=2)
        app.group("g", start="first", max_attempts=3)

        @app.handler("t", "g")
        async def handle(body: bytes) -> None:
            seen.append(body)

        await client.admin.create_topic("t")
        await client.send("t", b"before")
        async with app:
            await until(lambda: seen == [b"before"])
            assert await client.admin.list_topics() == [Topic(name="t", type="FIFO", queues=2)]
            (group,) = await client.admin.list_groups()
            assert (group.start, group.max_attempts) == ("first", 3)


def test_what_is_declared_twice_must_be_the_same() -> None:
    app = App()
    app.topic("t", queues=2)
    app.topic("t", queues=2)
    with pytest.raises(ValueError, match="topic t is declared twice"):
        app.topic("t", queues=3)
    with pytest.raises(ValueError, match='"first", "last"'):
        app.group("g", start="beginning")  # type: ignore[arg-type]


async def test_it_waits_for_a_server_that_is_not_there_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "first") as endpoint:
        pass  # its port is free now
    app, called = App(endpoint), list[str]()
    app.group("g", start="first")

    @app.handler("t", "g")
    async def handle(message: ReceivedMessage) -> None: ...

    @app.after_startup
    async def ready() -> None:
        called.append("ready")

    async with running(app):
        await until(lambda: "no answer from" in caplog.text)
        assert called == []
        port = int(endpoint.rpartition(":")[2])
        async with serving(tmp_path / "second", port):
            await until(lambda: called == ["ready"])
            app.stop()


async def test_it_can_be_stopped_while_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    app = App("127.0.0.1:1")

    @app.handler("t", "g")
    async def handle(message: ReceivedMessage) -> None: ...

    async with asyncio.timeout(30), running(app):
        await until(lambda: "no answer from" in caplog.text)


async def test_hooks_and_lifespan_are_called_in_their_order(popmq_broker: PopmqBroker) -> None:
    said: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(of: App) -> AsyncIterator[None]:
        await of.client.send("t", b"from the lifespan")
        said.append("lifespan")
        async with asyncio.TaskGroup():  # it is left in the task that has entered it
            yield
        await of.client.send("last", b"x")
        said.append("lifespan ends")

    app = App(popmq_broker.endpoint, lifespan=lifespan)

    @app.on_startup
    async def startup() -> None:
        said.append("on_startup")

    @app.after_startup
    def ready() -> None:
        said.append("after_startup")

    @app.on_shutdown
    def shutdown() -> None:
        said.append("on_shutdown")

    @app.handler("t", "g")
    async def handle(message: ReceivedMessage) -> None:
        said.append("handled")
        app.stop()

    await app.run(signals=False)
    assert sorted(said[2:4]) == ["after_startup", "handled"]
    assert said[:2] + said[4:] == ["lifespan", "on_startup", "on_shutdown", "lifespan ends"]
    popmq_broker.topic("last").assert_sent("x", times=1)


@pytest.mark.parametrize("hook", ["on_startup", "after_startup"])
async def test_a_hook_that_fails_ends_the_app(hook: str, popmq_broker: PopmqBroker) -> None:
    app, ended = App(popmq_broker.endpoint), list[str]()

    @app.handler("t", "g")
    async def handle(message: ReceivedMessage) -> None: ...

    async def fails() -> None:
        raise RuntimeError("no database")

    getattr(app, hook)(fails)
    app.on_shutdown(lambda: ended.append("shutdown"))
    for _ in range(2):  # and it may be run again
        with pytest.raises(RuntimeError, match="no database"):
            await app.run(signals=False)
    assert ended == ([] if hook == "on_startup" else ["shutdown", "shutdown"])


async def test_middlewares_are_around_each_handler(popmq_broker: PopmqBroker) -> None:
    app, said = App(popmq_broker.endpoint), list[str]()
    main = threading.current_thread()

    @app.handler("t", "g", retry=[3600])
    async def handle(body: bytes) -> None:
        said.append(f"handle {body.decode()}")
        if body == b"bad":
            raise ValueError("bad")

    @app.handler("t", "in-a-thread", serializer=Json())
    def in_a_thread(value: Any) -> None:
        said.append("thread" if threading.current_thread() is not main else "loop")

    @app.middleware
    async def outer(message: ReceivedMessage, call_next: Next) -> None:
        try:
            await call_next(message)
        except ValueError as wrong:
            said.append(f"outer saw {wrong}")
            raise Reject("seen") from wrong

    @app.middleware
    async def inner(message: ReceivedMessage, call_next: Next) -> None:
        if message.body == b"1" and message.group == "g":
            said.append("inner")
        await call_next(message)

    async with app:
        for body in ("1", "bad"):
            popmq_broker.send("t", body)
        await until(lambda: len(said) == 5)
        await popmq_broker.drained()
    assert sorted(said) == ["handle 1", "handle bad", "inner", "outer saw bad", "thread"]
    assert said.index("inner") < said.index("handle 1")
    assert popmq_broker.assert_dead_letter("g", "bad").reason == "seen"


async def test_a_handler_takes_the_value_alone(popmq_broker: PopmqBroker) -> None:
    app, seen = App(popmq_broker.endpoint), list[Any]()

    @app.handler("t", "value", serializer=Json())
    async def value(order: dict[str, int]) -> None:
        seen.append(order)

    @app.handler("t", "both", serializer=Json())
    def both(order: dict[str, int], message: ReceivedMessage) -> None:
        seen.append((order, message.delivery_attempt))

    class Called:
        async def __call__(self, body: bytes, message: ReceivedMessage) -> None:
            seen.append((body, message.delivery_attempt))

    def wrapped(message: ReceivedMessage) -> Any:
        async def later() -> None:
            seen.append("later")

        return later()

    app.handler("t", "called")(Called())
    app.handler("t", "wrapped")(wrapped)
    async with app:
        popmq_broker.send("t", '{"n":1}')
        await until(lambda: len(seen) == 4)
    assert all(one in seen for one in [{"n": 1}, ({"n": 1}, 1), (b'{"n":1}', 1), "later"])


async def test_a_handler_in_a_thread_sends_and_stops(popmq_broker: PopmqBroker) -> None:
    app, threads = App(popmq_broker.endpoint), list[int]()

    @app.handler("orders", "billing")
    def bill(body: bytes) -> None:
        threads.append(threading.get_ident())
        client: SyncClient = app.sync_client
        client.send("bills", body, keys="order-1")
        app.stop()

    popmq_broker.send("orders", "1")
    async with asyncio.timeout(30):
        await app.run(signals=False)
    assert threads != [threading.get_ident()]
    popmq_broker.topic("bills").assert_sent("1", key="order-1", times=1)
    with pytest.raises(RuntimeError, match="while the app runs"):
        _ = app.sync_client


async def test_the_sync_client_is_not_for_the_loop_itself(popmq_broker: PopmqBroker) -> None:
    app = App(popmq_broker.endpoint)

    @app.handler("t", "g")
    async def handle(message: ReceivedMessage) -> None: ...

    async with app:
        with pytest.raises(RuntimeError, match="its own event loop"):
            app.sync_client.send("t", b"x")


async def test_dependencies_are_filled_in_and_closed(popmq_broker: PopmqBroker) -> None:
    app, said = App(popmq_broker.endpoint), list[str]()

    def tenant(message: ReceivedMessage) -> str:
        return message.properties["tenant"]

    async def session(tenant: str = Depends(tenant)) -> AsyncIterator[str]:
        said.append("opened")
        yield f"session of {tenant}"
        said.append("closed")

    def limit() -> int:
        return 3

    @app.handler("t", "g", serializer=Json())
    async def handle(
        value: int,
        message: ReceivedMessage,
        opened: Annotated[str, Depends(session)],
        most: int = Depends(limit),
    ) -> None:
        said.append(f"{value} {message.topic} {opened} {most}")

    @app.handler("t", "in-a-thread")
    def plain(message: ReceivedMessage, most: int = Depends(limit)) -> None:
        said.append(f"plain {most}")

    async with app:
        popmq_broker.send("t", "7", properties={"tenant": "anna"})
        await until(lambda: "closed" in said and "plain 3" in said)
        said.remove("plain 3")
        assert said == ["opened", "7 t session of anna 3", "closed"]
        with dependency_provider.scope(limit, lambda: 9):
            popmq_broker.send("t", "8", properties={"tenant": "bert"})
            await until(lambda: "8 t session of bert 9" in said and "plain 9" in said)


async def test_one_handler_that_can_never_work_stops_the_app(popmq_broker: PopmqBroker) -> None:
    app = App(popmq_broker.endpoint)

    @app.handler("t", "g", sql="this is no SQL")
    async def handle(message: ReceivedMessage) -> None: ...

    async with asyncio.timeout(30):
        with pytest.raises(RefusedByServer, match="FILTER"):
            await app.run(signals=False)


async def test_it_runs_once_at_a_time(popmq_broker: PopmqBroker) -> None:
    app = App(popmq_broker.endpoint)
    with pytest.raises(RuntimeError, match="no handler"):
        await app.run()

    @app.handler("t", "g")
    async def handle(message: ReceivedMessage) -> None: ...

    async with app:
        with pytest.raises(RuntimeError, match="runs already"):
            await app.run()
