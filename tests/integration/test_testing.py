"""`popmq.testing`, as an application's tests use it."""

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from integration.served import running, until

from popmq import App, Client, PopMQClientError, ReceivedMessage, RefusedByServer, ServerUnreachable
from popmq.testing import PopmqBroker

ROOT = Path(__file__).resolve().parents[2]
CPU_S_MAX = 0.5
"""Of 16 attempts; 0.03 s on a machine that did ten other things."""


def test_send_receive_ack(popmq_broker: PopmqBroker) -> None:
    message_id = popmq_broker.send("orders", '{"id": 1}', tag="new", keys=["k1"])
    sent = popmq_broker.topic("orders").assert_sent({"id": 1}, tag="new", key="k1", times=1)
    assert (sent.message_id, sent.json()) == (message_id, {"id": 1})
    (message,) = popmq_broker.receive("orders", "billing")
    with pytest.raises(AssertionError, match="1 held by consumers"):
        popmq_broker.assert_no_messages_left("billing")
    popmq_broker.ack(message)
    popmq_broker.assert_no_messages_left("billing")
    popmq_broker.assert_no_dead_letters("billing")
    assert popmq_broker.explain(message_id).startswith("billing: acked")


def test_sixteen_attempts_and_the_dead_letter_cost_no_time(popmq_broker: PopmqBroker) -> None:
    """Sixteen invisible times of a minute pass in some steps of the clock."""
    popmq_broker.send("orders", "poison")
    start_ms, began_s = popmq_broker.now_ms, time.process_time()
    for attempt in range(1, 17):
        (message,) = popmq_broker.receive("orders", "billing", invisible_s=60)
        assert message.delivery_attempt == attempt
        popmq_broker.advance(60)
    assert popmq_broker.receive("orders", "billing") == []
    letter = popmq_broker.assert_dead_letter("billing", "poison", reason="attempts used up")
    used_s = time.process_time() - began_s
    assert letter.attempts == 16
    assert popmq_broker.now_ms - start_ms == 16 * 60_000
    assert used_s < CPU_S_MAX, f"{used_s:.3f} s of CPU time"


def test_time_stands_still_until_it_is_moved(popmq_broker: PopmqBroker) -> None:
    popmq_broker.send("orders", "later", delay_s=3_600)
    (held,) = [popmq_broker.send("orders", "now")]
    assert [one.body for one in popmq_broker.receive("orders", "billing")] == [b"now"]
    popmq_broker.advance(3_599)
    assert [one.message_id for one in popmq_broker.receive("orders", "billing")] == [held]
    popmq_broker.advance(1)
    assert [one.body for one in popmq_broker.receive("orders", "billing")] == [b"later"]


def test_a_retry_waits_for_its_delay(popmq_broker: PopmqBroker) -> None:
    popmq_broker.create_group("billing", retry=[5, 30], max_attempts=3)
    popmq_broker.send("orders", "a")
    for delay_s in (5, 30):
        (message,) = popmq_broker.receive("orders", "billing")
        popmq_broker.nack(message, reason="database is down")
        (view,) = popmq_broker.group("billing")
        assert (view.waiting, view.left) == (1, 1)
        popmq_broker.advance(delay_s - 0.001)
        assert popmq_broker.receive("orders", "billing") == []
        popmq_broker.advance(0.001)
    (message,) = popmq_broker.receive("orders", "billing")
    popmq_broker.nack(message, reason="still down")
    popmq_broker.assert_dead_letter("billing", "a", reason="still down")


def test_a_rejected_message_is_a_dead_letter_at_once(popmq_broker: PopmqBroker) -> None:
    popmq_broker.send("orders", "nonsense")
    popmq_broker.reject(popmq_broker.receive("orders", "billing")[0], "not an order")
    assert [one.reason for one in popmq_broker.dead_letters("billing")] == ["not an order"]
    with pytest.raises(AssertionError, match="not an order"):
        popmq_broker.assert_no_dead_letters("billing")
    with pytest.raises(AssertionError, match="no such dead letter"):
        popmq_broker.assert_dead_letter("billing", "another")


def test_a_group_in_order(popmq_broker: PopmqBroker) -> None:
    popmq_broker.create_group("billing", fifo=True)
    for body in ("1", "2"):
        popmq_broker.send("orders", body, message_group="customer-7")
    (first,) = popmq_broker.receive("orders", "billing", max_messages=1)
    assert popmq_broker.receive("orders", "billing") == []
    popmq_broker.expire_lease(first)
    again = popmq_broker.receive("orders", "billing", max_messages=1)
    assert [(one.body, one.delivery_attempt) for one in again] == [(b"1", 2)]


def test_an_expired_lease_is_worth_nothing(popmq_broker: PopmqBroker) -> None:
    other = popmq_broker.send("orders", "other")
    popmq_broker.send("orders", "slow")
    held = popmq_broker.receive("orders", "billing")
    slow = next(one for one in held if one.body == b"slow")
    popmq_broker.expire_lease(slow)
    with pytest.raises(RefusedByServer):
        popmq_broker.ack(slow)
    (again,) = popmq_broker.receive("orders", "billing")  # the other one is still held
    assert (again.body, again.delivery_attempt) == (b"slow", 2)
    popmq_broker.ack(again, *[one for one in held if one.message_id == other])
    popmq_broker.assert_no_messages_left("billing")
    with pytest.raises(AssertionError, match="nobody holds"):
        popmq_broker.expire_lease(slow)


def test_assertions_show_what_is_there(popmq_broker: PopmqBroker) -> None:
    popmq_broker.topic("orders").assert_nothing_sent()
    popmq_broker.send("orders", "a", properties={"colour": "red"})
    popmq_broker.topic("orders").assert_sent("a", properties={"colour": "red"})
    with pytest.raises(AssertionError, match=r"no message with body='b'\n  it holds 1:\n  b'a'"):
        popmq_broker.topic("orders").assert_sent("b")
    with pytest.raises(AssertionError, match="1 messages, not 2, with body='a'"):
        popmq_broker.topic("orders").assert_sent("a", times=2)
    with pytest.raises(AssertionError, match="is not empty"):
        popmq_broker.topic("orders").assert_nothing_sent()
    with pytest.raises(ValueError, match="assert_nothing_sent"):
        popmq_broker.topic("orders").assert_sent("a", times=0)


async def test_the_applications_own_client(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        await client.send("orders", b"1")
        (message,) = await client.receive("orders", "billing", invisible_s=30)
        popmq_broker.advance(30)
        (again,) = await client.receive("orders", "billing", invisible_s=30)
        assert (message.delivery_attempt, again.delivery_attempt) == (1, 2)
        await client.ack(again)
    popmq_broker.assert_no_messages_left("billing")


async def test_a_consumer_beside_the_test(popmq_broker: PopmqBroker) -> None:
    seen = []

    async def consume() -> None:
        async with Client(popmq_broker.endpoint) as client:
            while True:
                for message in await client.receive("orders", "billing"):
                    seen.append(message.body)
                    await client.ack(message)

    consumer = asyncio.create_task(consume())
    for number in range(20):
        popmq_broker.send("orders", str(number))
    while len(seen) < 20:  # until the group is known, nothing is left for it
        await popmq_broker.drained()
        await asyncio.sleep(0.01)
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    assert sorted(seen) == sorted(str(number).encode() for number in range(20))


def test_draining_says_what_is_left(popmq_broker: PopmqBroker) -> None:
    popmq_broker.send("orders", "a")
    popmq_broker.receive("orders", "billing")
    with pytest.raises(AssertionError, match="group billing has 1 messages of topic orders left"):
        popmq_broker.drain(timeout_s=0)


async def test_a_lost_answer(popmq_broker: PopmqBroker) -> None:
    """The server has done it, and the client tries again: the message is there once."""
    popmq_broker.drop_response("send")
    async with Client(popmq_broker.endpoint) as client:
        await client.send("orders", b"1")
    popmq_broker.topic("orders").assert_sent("1", times=1)
    popmq_broker.drop_response("send", times=3)
    async with Client(popmq_broker.endpoint) as client:
        with pytest.raises(ServerUnreachable):
            await client.send("orders", b"2")
    with pytest.raises(ValueError, match="none of send, receive"):
        popmq_broker.drop_response("sned")


def test_a_lost_receive_comes_again(popmq_broker: PopmqBroker) -> None:
    popmq_broker.send("orders", "1")
    popmq_broker.drop_response("receive")
    with pytest.raises(Exception, match="the test dropped the answer of ReceiveMessage"):
        popmq_broker.receive("orders", "billing")
    assert popmq_broker.receive("orders", "billing") == []
    popmq_broker.advance(60)
    (again,) = popmq_broker.receive("orders", "billing")
    assert again.delivery_attempt == 2


async def test_what_a_consumer_waits_for_is_lost(popmq_broker: PopmqBroker) -> None:
    """Our SDK asks by a call of its own; a receive that brings nothing does not count."""
    async with Client(popmq_broker.endpoint) as client:
        assert await client.receive("orders", "billing", wait_s=0) == []
        popmq_broker.drop_response("receive")
        assert await client.receive("orders", "billing", wait_s=0) == []
        async with client.consumer("orders", "billing", lease_s=60) as consumer:
            waiting = asyncio.ensure_future(anext(aiter(consumer)))
            popmq_broker.send("orders", "1")
            await _held_by_nobody(popmq_broker)
            message = await waiting
            assert message.delivery_attempt == 2
            await message.ack()
    popmq_broker.assert_no_messages_left("billing")


async def test_what_a_handler_waits_for_is_lost(popmq_broker: PopmqBroker) -> None:
    app, attempts = App(popmq_broker.endpoint), []

    @app.handler("orders", "billing", lease_s=60)
    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message.delivery_attempt)

    popmq_broker.drop_response("receive")
    async with running(app):
        popmq_broker.send("orders", "1")
        await _held_by_nobody(popmq_broker)
        await popmq_broker.drained()
    assert attempts == [2]


async def _held_by_nobody(broker: PopmqBroker) -> None:
    """A message was handed out and did not arrive; its lease ends."""
    await until(lambda: any(view.held for view in broker.group("billing")))
    broker.advance(60)


async def test_what_was_answered_outlives_a_crash_of_the_broker(
    popmq_broker: PopmqBroker,
) -> None:
    done, held = popmq_broker.send("orders", "done"), popmq_broker.send("orders", "held")
    messages = {one.message_id: one for one in popmq_broker.receive("orders", "billing")}
    popmq_broker.ack(messages[done])
    async with Client(popmq_broker.endpoint) as client:
        poll = asyncio.create_task(client.receive("orders", "billing", wait_s=10))
        await asyncio.sleep(0.05)
        popmq_broker.crash_broker()
        popmq_broker.ack(messages[held])  # a lease outlives it too
        popmq_broker.send("orders", "new")
        while not (found := await _result(poll)):  # an answer before the new one came: ask again
            poll = asyncio.create_task(client.receive("orders", "billing", wait_s=10))
        assert [one.body for one in found] == [b"new"]
    popmq_broker.advance(60)
    assert [one.body for one in popmq_broker.receive("orders", "billing")] == [b"new"]


async def _result(poll: "asyncio.Task[list[ReceivedMessage]]") -> list[ReceivedMessage]:
    try:
        return await poll
    except PopMQClientError:
        return []


async def test_clients_outlive_a_crash_of_the_proxy(popmq_broker: PopmqBroker) -> None:
    endpoint = popmq_broker.endpoint
    async with Client(endpoint) as client:
        await client.send("orders", b"1")
        popmq_broker.crash_proxy()
        assert popmq_broker.endpoint == endpoint
        await client.send("orders", b"2")
        popmq_broker.topic("orders").assert_sent("2")


def test_two_brokers_do_not_know_each_other() -> None:
    with PopmqBroker(new_groups_from="last") as one, PopmqBroker() as other:
        assert one.endpoint != other.endpoint
        one.send("orders", "1")
        assert one.receive("orders", "billing") == []  # it began at the newest message
        other.topic("orders").assert_nothing_sent()


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """A stand-in for an environment that has the SDK alone."""
    script = (
        "import sys; sys.modules['structlog'] = None\n"
        "try: import popmq.testing\n"
        "except ModuleNotFoundError as told: print(told)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'popmq[testing]'" in done.stdout
    script = "import popmq, sys; assert not any(n.startswith('popmq_broker') for n in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_example_of_the_readme_runs(popmq_broker: PopmqBroker) -> None:
    found = re.search(r"```python\n(def test_.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    names["test_a_lost_consumer"](popmq_broker)


def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "testing-your-app.md").read_text()
    blocks = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", text, re.DOTALL)
    assert {name for name, _ in blocks} == {"billing.py", "test_billing.py"}
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\npythonpath = .\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b4 passed", done.stdout), done.stdout
