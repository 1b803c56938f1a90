"""Tasks of Taskiq's over a real broker, run by Taskiq's own receiver."""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from integration.served import make_group, serving, until
from taskiq import Context, InMemoryBroker, SimpleRetryMiddleware, TaskiqDepends
from taskiq.api import run_receiver_task
from taskiq.exceptions import SendTaskError, TaskRejectedError

from popmq import Reject, Retry
from popmq.taskiq import ATTEMPT, TaskBroker, verdict
from popmq.testing import PopmqBroker


def task_broker(endpoint: str, **options: Any) -> TaskBroker:
    made = TaskBroker(endpoint, **options)
    made.result_backend = InMemoryBroker().result_backend
    return made


@contextlib.asynccontextmanager
async def working(broker: TaskBroker) -> AsyncIterator[None]:
    """A worker; what it has not begun goes back when it ends."""
    await broker.startup()
    worker = asyncio.create_task(run_receiver_task(broker))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await broker.shutdown()


def waiting(broker: PopmqBroker) -> int:
    """Tasks that wait for their next attempt."""
    return sum(view.waiting for view in broker.group("taskiq"))


async def test_a_task_is_run_once_and_has_a_result(popmq_broker: PopmqBroker) -> None:
    broker = task_broker(popmq_broker.endpoint)

    @broker.task
    async def add(one: int, other: int) -> int:
        return one + other

    @broker.task
    def in_a_thread(text: str) -> str:
        return text.upper()

    async with working(broker):
        sums = [await add.kiq(i, i) for i in range(5)]
        loud = await in_a_thread.kiq("hello")
        results = [await task.wait_result(timeout=60) for task in sums]
        assert [result.return_value for result in results] == [0, 2, 4, 6, 8]
        assert (await loud.wait_result(timeout=60)).return_value == "HELLO"
    popmq_broker.assert_no_messages_left("taskiq")
    popmq_broker.topic("taskiq").assert_sent(key=loud.task_id, times=1)


@pytest.mark.parametrize("how", ["delay", "eta"])
async def test_a_task_for_later(popmq_broker: PopmqBroker, how: str) -> None:
    broker = task_broker(popmq_broker.endpoint)
    seen: list[str] = []

    @broker.task
    async def remind(text: str) -> None:
        seen.append(text)

    due = datetime.fromtimestamp(popmq_broker.now_ms / 1000 + 3_600, UTC)
    labels: dict[str, Any] = {"delay": 3_600} if how == "delay" else {"eta": due.isoformat()}
    async with working(broker):
        later = await remind.kicker().with_labels(**labels).kiq("later")
        now = await remind.kiq("now")
        await now.wait_result(timeout=60)
        popmq_broker.advance(3_590)
        assert seen == ["now"]
        popmq_broker.advance(60)
        await later.wait_result(timeout=60)
    assert seen == ["now", "later"]


async def test_a_retry_is_the_same_message_counted_by_the_server(
    popmq_broker: PopmqBroker,
) -> None:
    popmq_broker.create_group("taskiq", retry=[60, 600])
    broker = task_broker(popmq_broker.endpoint)
    attempts: list[int] = []

    @broker.task(retry_on_error=True)
    async def bill(context: Context = TaskiqDepends()) -> int:
        attempts.append(int(context.message.labels[ATTEMPT]))
        if len(attempts) < 3:
            raise ConnectionError("bank is down")
        return len(attempts)

    async with working(broker):
        task = await bill.kiq()
        for attempt, delay_s in ((1, 60), (2, 600)):
            await until(lambda: waiting(popmq_broker) == 1)
            assert len(attempts) == attempt
            popmq_broker.advance(delay_s)
        result = await task.wait_result(timeout=60)
    assert (result.return_value, attempts) == (3, [1, 2, 3])
    popmq_broker.topic("taskiq").assert_sent(times=1)
    popmq_broker.assert_no_messages_left("taskiq")


async def test_after_the_last_retry_it_is_a_dead_letter_and_has_an_error(
    popmq_broker: PopmqBroker,
) -> None:
    broker = task_broker(popmq_broker.endpoint, retry=[0])

    @broker.task(retry_on_error=True, max_retries=2)
    async def bill() -> None:
        raise ConnectionError("bank is down")

    async with working(broker):
        task = await bill.kiq()
        result = await task.wait_result(timeout=60)
        await until(lambda: bool(popmq_broker.dead_letters("taskiq")))
    assert isinstance(result.error, ConnectionError)
    letter = popmq_broker.assert_dead_letter("taskiq", reason="ConnectionError: bank is down")
    assert letter.attempts == 3


async def test_what_a_task_ends_with(popmq_broker: PopmqBroker) -> None:
    broker = task_broker(popmq_broker.endpoint)
    ran: list[str] = []

    @broker.task
    async def end(how: str, context: Context = TaskiqDepends()) -> None:
        ran.append(how)
        if how == "error":
            raise ValueError("as it is")
        if how == "reject":
            raise Reject("not an order")
        if how == "rejects":
            context.reject()
        if how == "retry" and ran.count("retry") == 1:
            raise Retry(0, "busy", counted=False)
        if how == "cancelled" and ran.count("cancelled") == 1:
            raise asyncio.CancelledError
        assert context.message.labels[ATTEMPT] == 1

    async with working(broker):
        for how in ("error", "reject", "rejects", "retry", "cancelled"):
            task = await end.kiq(how)
            result = await task.wait_result(timeout=60)
            assert result.is_err == (how not in ("retry", "cancelled")), how
        await until(lambda: len(popmq_broker.dead_letters("taskiq")) == 2)
        await popmq_broker.drained()
    assert ran == ["error", "reject", "rejects", *["retry"] * 2, *["cancelled"] * 2]
    reasons = {letter.reason for letter in popmq_broker.dead_letters("taskiq")}
    assert reasons == {"not an order", "the task rejected it"}


async def test_a_worker_that_ends_gives_back_what_it_runs(popmq_broker: PopmqBroker) -> None:
    attempts: list[int] = []
    hang = True

    def made() -> Any:
        broker = task_broker(popmq_broker.endpoint)

        @broker.task(task_name="slow")
        async def slow(context: Context = TaskiqDepends()) -> None:
            attempts.append(int(context.message.labels[ATTEMPT]))
            if hang:
                await asyncio.Event().wait()

        return broker, slow

    broker, slow = made()
    async with working(broker):
        await slow.kiq()
        await until(lambda: attempts == [1])
    popmq_broker.assert_no_dead_letters("taskiq")
    hang = False
    other, _ = made()
    async with working(other):
        await until(lambda: len(attempts) == 2)
        await popmq_broker.drained()
    assert attempts == [1, 1]
    popmq_broker.assert_no_messages_left("taskiq")


async def test_its_lease_is_renewed_while_a_task_runs(tmp_path: Path) -> None:
    async with serving(tmp_path) as endpoint:
        await make_group(endpoint, "taskiq")
        broker = task_broker(endpoint, lease_s=1.0)
        held_until_s: set[float] = set()

        @broker.task
        async def slow(context: Context = TaskiqDepends()) -> str:
            message = broker.message(context.message)
            assert message is not None
            while len(held_until_s) < 3:
                held_until_s.add(message.held_until_s)
                await asyncio.sleep(0.05)
            return "done"

        async with working(broker):
            task = await slow.kiq()
            assert (await task.wait_result(timeout=60)).return_value == "done"


async def test_what_no_worker_can_run(popmq_broker: PopmqBroker) -> None:
    broker, other = task_broker(popmq_broker.endpoint), task_broker(popmq_broker.endpoint)

    @other.task(task_name="elsewhere")
    async def elsewhere() -> None: ...

    await other.startup()
    await elsewhere.kiq()
    popmq_broker.send("taskiq", "no task")
    async with working(broker):
        await until(lambda: bool(popmq_broker.dead_letters("taskiq")))
        await until(lambda: waiting(popmq_broker) == 1)
    popmq_broker.assert_dead_letter("taskiq", "no task", reason="no task of Taskiq's")
    popmq_broker.advance(60)
    async with working(other):
        await popmq_broker.drained()
    popmq_broker.assert_no_messages_left("taskiq")


async def test_two_kinds_of_retries_are_refused(popmq_broker: PopmqBroker) -> None:
    broker = TaskBroker(popmq_broker.endpoint).with_middlewares(SimpleRetryMiddleware())
    with pytest.raises(ValueError, match="leave it out"):
        await broker.startup()


@pytest.mark.parametrize(
    ("error", "labels", "attempt", "expected"),
    [
        (ValueError("x"), {}, 1, None),
        (ValueError("x"), {"retry_on_error": "True"}, 1, (None, "ValueError: x", True)),
        (
            ValueError("x"),
            {"retry_on_error": True, "max_retries": "1"},
            1,
            (None, "ValueError: x", True),
        ),
        (ValueError("x"), {"retry_on_error": True, "max_retries": "1"}, 2, "ValueError: x"),
        (asyncio.CancelledError(), {}, 1, (0.0, "", False)),
        (TaskRejectedError(), {}, 1, "the task rejected it"),
    ],
)
def test_verdicts(
    error: BaseException, labels: dict[str, Any], attempt: int, expected: Any
) -> None:
    said = verdict(error, labels, attempt)
    if isinstance(said, Retry):
        assert (said.delay_s, said.reason, said.counted) == expected
    else:
        assert (said.reason if isinstance(said, Reject) else said) == expected


@pytest.mark.parametrize("eta", ["2030-01-01T00:00:00", "tomorrow"])
async def test_a_time_that_is_none(popmq_broker: PopmqBroker, eta: str) -> None:
    broker = task_broker(popmq_broker.endpoint)

    @broker.task
    async def remind() -> None: ...

    await broker.startup()
    with pytest.raises(SendTaskError) as refused:
        await remind.kicker().with_labels(eta=eta).kiq()
    assert re.search("time zone|isoformat", str(refused.value.__cause__))
    await broker.shutdown()


WORKER = """
from pathlib import Path
from popmq.taskiq import TaskBroker
broker = TaskBroker("ENDPOINT")

@broker.task
async def write(text: str) -> None:
    Path("part").write_text(text)
    Path("part").rename("done")
"""


async def test_taskiqs_own_command(popmq_broker: PopmqBroker, tmp_path: Path) -> None:
    (tmp_path / "users_tasks.py").write_text(WORKER.replace("ENDPOINT", popmq_broker.endpoint))
    command = [sys.executable, "-m", "taskiq", "worker", "users_tasks:broker", "--workers", "1"]
    worker = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        sender = TaskBroker(popmq_broker.endpoint)

        @sender.task(task_name="users_tasks:write")
        async def write(text: str) -> None: ...

        await sender.startup()
        await write.kiq("hello")
        await sender.shutdown()
        await until((tmp_path / "done").exists)
    finally:
        worker.terminate()
        said, _ = await asyncio.wait_for(worker.communicate(), 60)
    assert worker.returncode == 0, said.decode()
    assert (tmp_path / "done").read_text() == "hello"
    popmq_broker.assert_no_messages_left("taskiq")
