"""One subscription of an app: receives what its handlers can start, and settles what they leave.

    poll ──► order ──► handler ──► ack, nack, reject
                          └─cancelled──► given back, uncounted

`_core/serial_dispatch.py` says what starts next, `in_context.py` in which task. Each broker of the
topic is polled on its own; together the polls ask for no more than there is room for.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core.group_policy import GroupPolicy
from popmq._core.parameters import is_async
from popmq._core.serial_dispatch import OrderKey, SerialDispatch
from popmq.app.failure_log import log_failure
from popmq.app.handler_layers import Middleware, behind
from popmq.app.in_context import InContext
from popmq.app.subscription import Subscription
from popmq.connection.pause import RECEIVE_BACKOFF, pause, pause_s
from popmq.consumer.receiving import Wanted
from popmq.errors import AccessDenied, PopMQClientError
from popmq.log_fields import fields, level_of
from popmq.message import ReceivedMessage
from popmq.outcome import Reject, Retry

if TYPE_CHECKING:
    from popmq.client import Client

log = logging.getLogger("popmq.app.handling")  # the name that applications configure
BATCH_MAX: Final = 256
"""What a server gives in one receive, at most."""
POLLS_MAX: Final = 3
"""Under way at one broker that has plenty."""
SLICE_S: Final = 0.01
"""So long handlers that never wait run one after the other before the rest of the loop has its
turn."""
WAIT_S: Final = 15.0
SHORT_WAIT_S: Final = 1.0
"""How long a broker is waited at while others wait to be asked."""
SETTLING_MAX: Final = 1_024
"""Messages that are handled and whose ack is not answered; nothing is received beyond."""
ROUTE_S: Final = 10.0
"""How often it is asked which brokers there are."""


class SubscriptionRunner:
    def __init__(
        self,
        client: "Client",
        subscription: Subscription,
        middlewares: Sequence[Middleware] = (),
    ) -> None:
        """`middlewares`: around the handler and its layers, the first one outermost."""
        self._client = client
        self._how = subscription
        self._wanted = Wanted(
            topic=subscription.topic,
            group=subscription.group,
            filter=subscription.filter,
            sql=subscription.sql,
            invisible_s=subscription.lease_s,
        )
        self._capacity = subscription.concurrency + subscription.prefetch
        self._dispatch: SerialDispatch[ReceivedMessage] = SerialDispatch(subscription.concurrency)
        self._brokers: dict[str, v2.MessageQueue] = {}
        self._polls: dict[asyncio.Task[None], str] = {}
        """Which broker each asks."""
        self._plenty: set[str] = set()
        """Brokers whose last answer brought all that was asked for."""
        self._asked_for = 0
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._poll_round = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_begin = 0
        """Tasks that will look what may start, and have not run yet."""
        self._settling = 0
        self._changed = asyncio.Event()
        self._stopped = False
        self._received = False
        self._wrong: PopMQClientError | None = None
        call: Any = subscription.handler
        self._threads: ThreadPoolExecutor | None = None
        if not is_async(subscription.handler):
            call = self._in_thread
            self._threads = ThreadPoolExecutor(
                subscription.concurrency, thread_name_prefix=f"popmq-{subscription.group}"
            )
        for layer in reversed([*map(behind, middlewares), *subscription.layers]):
            call = layer(call)
        self._call: Callable[[ReceivedMessage], Any] = call

    async def subscribe(self) -> None:
        """Until the server knows of it: what is sent from now on reaches the group, also a new one.
        Raises the errors of `popmq.errors`."""
        await self._client.receiving.brokers(self._how.topic)
        await self._client.receiving.subscribe(self._wanted, until_told=True)

    async def run(self) -> None:
        """Until `stop`. Raises what no other try would mend, as long as nothing was received."""
        routes = asyncio.create_task(self._watch_route())
        try:
            while not self._stopped:
                if self._wrong is not None:
                    raise self._wrong
                self._start()
                self._poll()
                self._changed.clear()
                await self._wait()
        finally:
            routes.cancel()
            await asyncio.gather(routes, return_exceptions=True)

    async def stop(self, within_s: float) -> None:
        """Receive nothing more, let handlers end, give back the rest. Then everything is settled,
        or is redelivered when its lease ends."""
        self._stopped = True
        self._changed.set()
        until_s = asyncio.get_running_loop().time() + within_s
        for poll in self._polls:
            poll.cancel()
        self._give_back(self._dispatch.give_up())
        try:
            await asyncio.gather(*self._polls, return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until_s):
                    while self._tasks or self._settling:
                        self._changed.clear()
                        await self._changed.wait()
        finally:  # a stop that is cancelled does not wait for handlers, and gives back the same
            await self._cut_short()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)

    async def _cut_short(self) -> None:
        """Handlers that still work are cancelled; what they have is given back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks:  # what the cancelled ones gave back
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait(self) -> None:
        """For a change, or until a broker may be asked again."""
        now_s = time.monotonic()
        later = [at - now_s for at in self._not_before.values() if at > now_s]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(later, default=None)):
                await self._changed.wait()

    # receiving

    def _poll(self) -> None:
        """Ask brokers for what there is room for, in turn."""
        free = self._capacity - self._dispatch.held - self._asked_for
        now_s = time.monotonic()
        under_way = Counter(self._polls.values())
        able = [
            name
            for name in self._brokers
            if under_way[name] < self._polls_max(name) and self._not_before.get(name, 0.0) <= now_s
        ]
        if free <= 0 or not able or self._settling >= SETTLING_MAX:
            return
        self._poll_round += 1
        able = able[self._poll_round % len(able) :] + able[: self._poll_round % len(able)]
        asked = able[:free]
        everyone = len(under_way.keys() | set(asked)) >= len(self._brokers)
        for i, name in enumerate(asked):
            count = min(BATCH_MAX, (free + i) // len(asked))
            self._asked_for += count
            patience_s = WAIT_S if everyone else SHORT_WAIT_S
            wait_s = 0.0 if under_way[name] else patience_s
            self._polls[asyncio.create_task(self._poll_at(name, count, wait_s))] = name

    def _polls_max(self, broker: str) -> int:
        """While more lies there than is asked for at once, the next answer is made while the last
        one travels. A FIFO group has one poll: a lost answer is asked for again."""
        if broker in self._plenty and not self._client.receiving.is_fifo(self._how.group):
            return POLLS_MAX
        return 1

    async def _poll_at(self, name: str, count: int, wait_s: float) -> None:
        try:
            found = await self._client.receiving.receive_at(
                self._brokers[name],
                self._wanted,
                count,
                wait_s,
                None,
                attempts=1,
                dropped=self._give_back,
            )
            self._received = True
            self._answered(name)
        except PopMQClientError as failed:
            self._failed(name, failed)
            found = []
        finally:
            self._asked_for -= count
            if (task := asyncio.current_task()) is not None:
                self._polls.pop(task, None)
            self._changed.set()
        if len(found) == count:
            self._plenty.add(name)
        else:
            self._plenty.discard(name)
        self._take(found)

    def _take(self, found: list[ReceivedMessage]) -> None:
        if self._stopped:
            self._give_back(found)
            return
        how, fifo = self._how, self._client.receiving.is_fifo(self._how.group)
        self._client.leases.hold(found, how.lease_s, how.lease_longest_s, _is_redelivered)
        for message in found:
            message.holder = self._client
            order_key: OrderKey | None = message.message_group
            if fifo:
                order_key = message.broker, message.queue_id, message.message_group or ""
            self._dispatch.add(message, order_key)
        self._start()

    def _failed(self, name: str, failed: PopMQClientError) -> None:
        if self._is_final(failed):
            self._wrong = failed
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        after_s = pause_s(failures, RECEIVE_BACKOFF)
        self._not_before[name] = time.monotonic() + after_s
        level = level_of(failed) if failures == 1 else logging.DEBUG
        said = self._said(failed, name)
        log.log(level, "%s of %s: %s", self._how.topic, name, failed, extra=said)

    def _is_final(self, failed: PopMQClientError) -> bool:
        denied = isinstance(failed, AccessDenied)
        return denied or (not failed.retriable and not self._received)

    def _answered(self, name: str) -> None:
        self._not_before.pop(name, None)
        if self._failures.pop(name, None):
            log.info("%s of %s is received again", self._how.topic, name)

    def _said(self, failed: PopMQClientError, broker: str = "") -> dict[str, object]:
        return fields(None, failed, topic=self._how.topic, group=self._how.group, broker=broker)

    async def _watch_route(self) -> None:
        failures = 0
        while True:
            try:
                queues = await self._client.receiving.brokers(self._how.topic)
                self._brokers = {queue.broker.name: queue for queue in queues}
                self._changed.set()
                failures = 0
                await asyncio.sleep(ROUTE_S)
            except PopMQClientError as failed:
                if self._is_final(failed):
                    self._wrong = failed
                    self._changed.set()
                level = logging.DEBUG if failures else level_of(failed)
                failures += 1
                log.log(level, "%s: %s", self._how.topic, failed, extra=self._said(failed))
                await pause(failures, RECEIVE_BACKOFF)

    # handling

    def _start(self) -> None:
        """A task for what may start, unless one will look anyway."""
        if self._dispatch.can_start and not self._to_begin and not self._stopped:
            self._to_begin += 1
            self._spawn(self._work())

    async def _work(self) -> None:
        """Messages one after the other, as long as there are some that may start."""
        self._to_begin -= 1
        task = asyncio.current_task()
        until_s = time.monotonic() + SLICE_S
        while not self._stopped and (next_one := self._dispatch.start()) is not None:
            message, order_key = next_one
            outcome = await InContext(self._observed(message), self._start)
            self._handled(message, order_key, outcome)
            if isinstance(outcome, asyncio.CancelledError) or (task and task.cancelling()):
                return  # the handler was cancelled, not what comes behind it
            if time.monotonic() >= until_s:
                await self._let_others_run()
                until_s = time.monotonic() + SLICE_S

    async def _let_others_run(self) -> None:
        self._to_begin += 1
        try:
            await asyncio.sleep(0)
        finally:
            self._to_begin -= 1

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()
        self._start()

    def _handled(
        self, message: ReceivedMessage, order_key: OrderKey | None, outcome: BaseException | None
    ) -> None:
        failed = outcome is not None and not isinstance(outcome, Reject)
        self._give_back(self._dispatch.finished(order_key, drop=failed))
        self._settling += 1
        self._changed.set()
        tell = partial(self._settled, message)
        if outcome is not None or not self._client.settling.ack_now(message, tell):
            self._spawn(self._settle(message, outcome))

    def _settled(self, message: ReceivedMessage, wrong: Exception | None) -> None:
        self._settling -= 1
        self._changed.set()
        if wrong is not None:
            more = fields(message, wrong)
            log.warning("message %s is redelivered: %s", message.message_id, wrong, extra=more)

    @property
    def _policy(self) -> GroupPolicy:
        return self._client.receiving.policy(self._how.group)

    async def _observed(self, message: ReceivedMessage) -> BaseException | None:
        if (observer := self._client.observer) is None:
            return await self._outcome(message)
        with observer.process((message,)) as process:
            outcome = await self._outcome(message)
            process.ended(outcome)
        return outcome

    async def _outcome(self, message: ReceivedMessage) -> BaseException | None:
        """None: it is handled."""
        if message.body_error:
            damaged = Reject(message.body_error)
            log_failure(self._how, self._policy, message, damaged)
            return damaged
        try:
            await self._call(message)
        except asyncio.CancelledError as cancelled:
            return cancelled
        except Exception as failed:
            log_failure(self._how, self._policy, message, failed)
            return failed
        return None

    async def _in_thread(self, message: ReceivedMessage) -> None:
        run = contextvars.copy_context().run  # what is done there belongs to what is done here
        loop = asyncio.get_running_loop()
        waits: Any = await loop.run_in_executor(self._threads, run, self._how.handler, message)
        if inspect.isawaitable(waits):  # of a function that wraps one with `async`
            await waits

    async def _settle(self, message: ReceivedMessage, outcome: BaseException | None) -> None:
        wrong = None
        try:
            await self._say(message, outcome)
        except PopMQClientError as failed:
            wrong = failed
        finally:
            self._settled(message, wrong)

    async def _say(self, message: ReceivedMessage, outcome: BaseException | None) -> None:
        settling = self._client.settling
        delay_s = self._how.delay_s(message.delivery_attempt)
        if outcome is None:
            await settling.ack(message)
        elif isinstance(outcome, Reject):
            await settling.reject(message, outcome.reason)
        elif isinstance(outcome, asyncio.CancelledError):
            await settling.nack(message, 0.0, "", counted=False)
        elif isinstance(outcome, Retry):
            if outcome.delay_s is not None:
                delay_s = outcome.delay_s
            await settling.nack(message, delay_s, outcome.reason, counted=outcome.counted)
        else:
            reason = f"{type(outcome).__name__}: {outcome}"
            await settling.nack(message, delay_s, reason, counted=True)

    def _give_back(self, messages: list[ReceivedMessage]) -> None:
        """Uncounted and at once; one that cannot be given back comes when its lease ends."""
        for message in messages:
            self._spawn(self._client.settling.release(message))


def _is_redelivered(_: ReceivedMessage) -> None:
    """Its lease is over: what the handler leaves cannot be settled any more."""
