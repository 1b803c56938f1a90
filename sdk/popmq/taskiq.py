"""A broker for Taskiq. Needs the extra: pip install 'popmq[taskiq]'.

broker = TaskBroker("127.0.0.1:8081")

@broker.task(retry_on_error=True, max_retries=5)
async def bill(order: str) -> None: ...

await bill.kicker().with_labels(delay=60).kiq("order-1")    # worker: taskiq worker module:broker

A task's message is held by a lease that is renewed while the task runs; a worker that dies lets go
of it, and another one gets it. What the task ends with decides:

returns, or raises             acked; the result, or the error, goes to the result backend
raises, with retry_on_error    is redelivered, counted; after `max_retries`, or the group's last
                               attempt, it is a dead letter
raises Retry(…)                is redelivered as it says
raises Reject(…), or rejects   a dead letter at once, with the reason
is cancelled: the worker ends  given back at once, not counted
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary

try:
    from taskiq import (
        AckableMessage,
        AsyncBroker,
        BrokerMessage,
        TaskiqMessage,
        TaskiqMiddleware,
        TaskiqResult,
    )
    from taskiq.exceptions import NoResultError, TaskRejectedError
except ModuleNotFoundError as missing:
    text = f"popmq.taskiq needs {missing.name}, which is not installed: pip install 'popmq[taskiq]'"
    raise ModuleNotFoundError(text, name=missing.name) from missing

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core.backoff import attempt_delay_s
from popmq.client import Client
from popmq.connection.pause import pause
from popmq.consumer.consumer import Consumer
from popmq.errors import PopMQClientError, RefusedByServer
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq.outcome import Reject, Retry
from popmq.producer.producer import Producer

log = logging.getLogger(__name__)
TASK: Final = "taskiq_task"
"""Property of a message: the name of its task."""
DELIVERY: Final = "popmq_delivery"
ATTEMPT: Final = "popmq_attempt"
"""Labels that a task finds in its context: which delivery it is, and which attempt, from 1."""
UNKNOWN_DELAY_S: Final = 30.0
"""Until another worker is asked for a task that this one does not know."""


@dataclass(slots=True, weakref_slot=True)
class _Delivery:
    """A task's message while a worker has it."""

    message: ReceivedMessage
    verdict: Retry | Reject | None = None
    """None: it is acked."""


_Deliveries = WeakValueDictionary[str, _Delivery]


class TaskBroker(AsyncBroker):
    """Tasks are messages of `topic`; all workers of `group` share them."""

    def __init__(
        self,
        endpoint: str | Client = "127.0.0.1:8081",
        *,
        topic: str = "taskiq",
        group: str = "taskiq",
        lease_s: float = 30.0,
        lease_longest_s: float = 3_600.0,
        held_max: int = 128,
        retry: Sequence[float] | None = None,
        **options: Any,
    ) -> None:
        """`endpoint`: or a client of your own, which you close. `lease_s`: after a worker's death
        its tasks are redelivered within so long. `lease_longest_s`: a task that takes longer
        may run twice. `held_max`: tasks that a worker holds, those that wait there included.
        `retry`: after the first failure, the second, and so on; None: the group's retry
        policy. `options`: as of `Client`. A group that is not there is made, and starts at the
        oldest task."""
        super().__init__()
        self._endpoint, self._options = endpoint, options
        self._topic, self._group = topic, group
        self._held = {"lease_s": lease_s, "lease_longest_s": lease_longest_s, "held_max": held_max}
        self._deliveries: _Deliveries = WeakValueDictionary()
        self._client: Client | None = None
        self._producer: Producer[bytes] | None = None
        self._consumers: list[Consumer] = []
        self.add_middlewares(_Verdicts(self._deliveries, retry))

    async def startup(self) -> None:
        """Raises `ValueError` when tasks would be tried again twice over."""
        for middleware in self.middlewares:
            if type(middleware).__name__ in ("SimpleRetryMiddleware", "SmartRetryMiddleware"):
                name = type(middleware).__name__
                raise ValueError(f"{name} sends again what this broker tries again: leave it out")
        await super().startup()
        own = not isinstance(self._endpoint, Client)
        made = Client(self._endpoint, **self._options) if own else self._endpoint  # type: ignore[arg-type]
        assert isinstance(made, Client)
        self._client, self._producer = made, made.producer()

    async def shutdown(self) -> None:
        """What waits here goes to other workers at once."""
        for consumer in self._consumers:
            await consumer.close()
        self._consumers.clear()
        client, self._client, self._producer = self._client, None, None
        if client is not None and client is not self._endpoint:
            await client.close()
        await super().shutdown()

    async def kick(self, message: BrokerMessage) -> None:
        """Returns when the task is stored. Labels: `delay`, in seconds, or `eta`, a time. Raises
        the errors of `popmq.errors`, and `ValueError` for labels that are no times."""
        if self._producer is None:
            raise RuntimeError("the broker is not started: await broker.startup()")
        await self._producer.send(
            self._topic,
            message.message,
            keys=[message.task_id],
            properties={TASK: message.task_name},
            delay_s=_delay_s(message.labels),
            deliver_at=_eta(message.labels),
        )

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """Tasks that this worker knows."""
        if self._client is None:
            raise RuntimeError("the broker is not started: await broker.startup()")
        await self._make_group(self._client)
        consumer = self._client.consumer(self._topic, self._group, **self._held)  # type: ignore[arg-type]
        self._consumers.append(consumer)
        async for message in consumer:
            task = self._task(message)
            if isinstance(task, TaskiqMessage):
                yield self._given(message, task)
            else:
                await _settle(_Delivery(message, task))

    async def _make_group(self, client: Client) -> None:
        """What was sent before the first worker started is for it too."""
        for failures in count(1):
            try:
                if await client.admin.find_group(self._group) is None:
                    await client.admin.create_group(self._group, start="first")
                return
            except PopMQClientError as failed:
                if isinstance(failed, RefusedByServer) and failed.code == v2.NOT_IMPLEMENTED:
                    return  # it is no PopMQ
                if not failed.retriable:
                    raise
            await pause(failures)

    def message(self, task: TaskiqMessage) -> ReceivedMessage | None:
        """The message that a task came in, while it runs: `broker.message(context.message)`."""
        delivery = self._deliveries.get(str(task.labels.get(DELIVERY)))
        return None if delivery is None else delivery.message

    def _task(self, message: ReceivedMessage) -> TaskiqMessage | Retry | Reject:
        """What Taskiq would not settle is settled here."""
        if message.body_error:
            return Reject(message.body_error)
        try:
            task = self.formatter.loads(message.body)
        except Exception as wrong:
            return Reject(f"no task of Taskiq's: {wrong}")
        if self.find_task(task.task_name) is None:
            return Retry(UNKNOWN_DELAY_S, f"no worker knows the task {task.task_name}")
        return task

    def _given(self, message: ReceivedMessage, task: TaskiqMessage) -> AckableMessage:
        delivery = _Delivery(message)
        key = f"{message.message_id}:{message.delivery_attempt}"
        self._deliveries[key] = delivery
        task.labels |= {DELIVERY: key, ATTEMPT: message.delivery_attempt}
        data = self.formatter.dumps(task).message
        return AckableMessage(data=data, ack=partial(_settle, delivery))


class _Verdicts(TaskiqMiddleware):
    """Taskiq's receiver can ack, and nothing else: this notes what the ack is to be instead."""

    def __init__(self, deliveries: _Deliveries, retry: Sequence[float] | None) -> None:
        super().__init__()
        self._deliveries, self._delays_s = deliveries, retry

    def on_error(
        self, message: TaskiqMessage, result: TaskiqResult[Any], exception: BaseException
    ) -> None:
        delivery = self._deliveries.get(str(message.labels.get(DELIVERY)))
        if delivery is None:
            return
        attempt = delivery.message.delivery_attempt
        delivery.verdict = verdict(exception, message.labels, attempt)
        said = delivery.verdict
        if isinstance(said, Retry):
            result.error = NoResultError()  # it has none yet
            if said.delay_s is None and self._delays_s is not None:
                delay_s = attempt_delay_s(tuple(self._delays_s), attempt)
                delivery.verdict = Retry(delay_s, said.reason, counted=said.counted)


def verdict(error: BaseException, labels: Mapping[str, Any], attempt: int) -> Retry | Reject | None:
    """What becomes of a task that failed at its `attempt`, from 1; None: it is done."""
    if isinstance(error, Retry | Reject):
        return error
    if isinstance(error, asyncio.CancelledError):
        return Retry(0.0, counted=False)
    if isinstance(error, TaskRejectedError):
        return Reject("the task rejected it")
    if isinstance(error, NoResultError) or str(labels.get("retry_on_error")).lower() != "true":
        return None
    reason = f"{type(error).__name__}: {error}"
    retries_max = labels.get("max_retries")
    if retries_max is not None and attempt > int(retries_max):
        return Reject(reason)
    return Retry(None, reason)


async def _settle(delivery: _Delivery) -> None:
    """An error means that it is redelivered, and is logged: nobody could do anything about it."""
    message, said = delivery.message, delivery.verdict
    try:
        if said is None:
            await message.ack()
        elif isinstance(said, Reject):
            await message.reject(said.reason)
        else:
            await message.nack(said.delay_s, said.reason, counted=said.counted)
    except PopMQClientError as failed:
        text = "the task of message %s is redelivered: %s"
        log.warning(text, message.message_id, failed, extra=fields(message, failed))


def _delay_s(labels: Mapping[str, Any]) -> float | None:
    delay = labels.get("delay")
    return None if delay is None else float(delay)


def _eta(labels: Mapping[str, Any]) -> datetime | None:
    eta = labels.get("eta")
    if eta is None:
        return None
    due = eta if isinstance(eta, datetime) else datetime.fromisoformat(str(eta))
    if due.tzinfo is None:
        raise ValueError(f"eta {eta} has no time zone")
    return due
