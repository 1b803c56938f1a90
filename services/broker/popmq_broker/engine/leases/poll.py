"""Polls: pops that wait for messages, and watches for polls that wait at another broker.

A poll that finds nothing waits for an arrival and looks again. Its proxy may cut it short, when it
has heard of a message elsewhere.

Source: RocketMQ PopLongPollingService, NotificationProcessor.
"""

import asyncio

from popmq_broker.core.catalog.tables import PERM_READ
from popmq_broker.core.filters.filter import Filter
from popmq_broker.core.groups.starts import StartKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.polls.receives import LastReceive
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.long_polls import GroupTopic, PollDeadline
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.pop import Pop, PoppedMessages, reply_of, wanted_by
from popmq_common.errors import BadRequest, NoPermission, StartNotFixed
from popmq_internal.v1 import link_pb2 as link

ATTEMPT_ID_MAX = 256
SCAN_PAST_POLL_S = 1.0  # filtering goes on so long after a poll's time, where messages are left
CLIENT_ID_MAX = 1_024


class Polls:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, consumer_state: ConsumerState, pop: Pop
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._consumer_state = consumer_state
        self._pop = pop
        self._polls: dict[int, tuple[GroupTopic, PollDeadline]] = {}
        """Those under way that their proxies may cut short, by the number that the proxy gave."""

    async def pop(self, request: link.Pop) -> link.PopReply:
        """Up to `batch_size` messages, at once or within `poll_ms`.

        Raises `TopicNotFound`, `GroupNotFound`, `NoPermission`, `IllegalFilter`,
        `TooManyInFlight`, `TooManyRequests`, `DiskFull`.
        """
        wanted = self._check(request)
        key = GroupTopic(request.group, request.topic)
        self._note(request, wanted)
        loop = asyncio.get_running_loop()
        deadline = PollDeadline(loop.time() + request.poll_ms / 1000)
        if not request.poll_id:
            return await self._pop_within(request, wanted, key, deadline)
        self._polls[request.poll_id] = key, deadline
        try:
            return await self._pop_within(request, wanted, key, deadline)
        finally:
            self._polls.pop(request.poll_id, None)
            if not self._polls:
                self._polls.clear()  # as large as it was once, otherwise

    async def end_poll(self, request: link.EndPoll) -> link.Done:
        """It is answered at once with what there is; nothing happens to one that was answered."""
        found = self._polls.get(request.poll_id)
        if found is not None:
            self._runtime.long_polls.cut_short(*found)
        return link.Done()

    async def watch(self, request: link.Watch) -> link.Done:
        """Answered when something arrives that no poll here waits for.

        Raises `TopicNotFound`, `GroupNotFound`, `NoPermission`, `IllegalFilter`,
        `TooManyRequests`.
        """
        self._check_readable(request.group, request.topic)
        wanted = wanted_by(request.filter_kind, request.filter_expression)
        await self._runtime.long_polls.watch(GroupTopic(request.group, request.topic), wanted)
        return link.Done()

    async def pass_on(self, request: link.PassOn) -> link.Done:
        """Who was told by `watch` has no poll for it any more: somebody else looks."""
        self._runtime.long_polls.wake_next(GroupTopic(request.group, request.topic))
        return link.Done()

    async def _pop_within(
        self, request: link.Pop, wanted: Filter, key: GroupTopic, deadline: PollDeadline
    ) -> link.PopReply:
        loop = asyncio.get_running_loop()
        long_polls = self._runtime.long_polls
        if request.poll_ms and long_polls.lingers(key):
            await long_polls.wait(
                key, wanted, request.poll_ms / 1000, looked=False, deadline=deadline
            )
            self._check(request)
        waited = False
        while True:
            await self._portion(request, key)
            taken = self._pop.take(request, wanted)
            self._runtime.portions.use(taken.size_bytes)
            if taken.count and taken.more:
                long_polls.wake_next(key)
            if taken.end_offset is not None:
                await self._durable(taken)
            for scan in taken.scans:
                scan.queue.advance(min(scan.next_offset, scan.queue.needed_from))
            if taken.count:
                self._runtime.stats.popped[request.topic, request.group] += taken.count
                return reply_of(taken, request, self._runtime.config.name)
            if taken.damaged:
                await self._runtime.damage.saved()
                continue
            if taken.end_offset is not None:  # something may have come while the disk was awaited
                continue
            if taken.more:  # everything looked at was filtered out, and there is more
                if loop.time() > deadline.deadline_s + SCAN_PAST_POLL_S:
                    long_polls.wake_next(
                        key
                    )  # it, or the next poll, goes on where this one stopped
                    return link.PopReply()
                await self._let_others_run(key)
                continue
            remaining_s = deadline.deadline_s - loop.time()
            if remaining_s <= 0:
                return link.PopReply()
            if not await long_polls.wait(key, wanted, remaining_s, again=waited, deadline=deadline):
                return link.PopReply()
            waited = True
            self._check(request)

    def _note(self, request: link.Pop, wanted: Filter) -> None:
        """For people who ask why a message was passed over."""
        text = request.filter_expression if wanted is not None else ""
        last = LastReceive(self._runtime.clock.now_ms(), wanted, text)
        self._consumer_state.receives.note(request.group, request.topic, last)

    async def _portion(self, request: link.Pop, key: GroupTopic) -> None:
        """Others may have read much in this turn."""
        try:
            waited = await self._runtime.portions.wait()
        except asyncio.CancelledError:  # somebody else must look at what this one was woken for
            self._runtime.long_polls.wake_next(key)
            raise
        if waited:
            self._check(request)

    async def _let_others_run(self, key: GroupTopic) -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:  # somebody else must look at the rest
            self._runtime.long_polls.wake_next(key)
            raise

    def _check(self, request: link.Pop) -> Filter:
        self._check_readable(request.group, request.topic)
        start = StartKey(request.group, request.topic)
        if request.needs_start and start not in self._catalog_state.starts:
            raise StartNotFixed(group=request.group, topic=request.topic)
        if not 1 <= request.batch_size <= ck.CHECKPOINT_OFFSETS_MAX:
            raise BadRequest(
                reason=f"batch size {request.batch_size}, 1 to {ck.CHECKPOINT_OFFSETS_MAX} allowed"
            )
        if len(request.attempt_id) > ATTEMPT_ID_MAX:
            raise BadRequest(reason=f"an attempt id of more than {ATTEMPT_ID_MAX} characters")
        if len(request.client_id) > CLIENT_ID_MAX:
            raise BadRequest(reason=f"a client id of more than {CLIENT_ID_MAX} characters")
        return wanted_by(request.filter_kind, request.filter_expression)

    def _check_readable(self, group: str, topic: str) -> None:
        config = self._catalog_state.topic(topic)
        if not config.perm & PERM_READ:
            raise NoPermission(topic=config.name, action="readable")
        self._catalog_state.group(group)

    async def _durable(self, taken: PoppedMessages) -> None:
        assert taken.end_offset is not None
        size_bytes = taken.size_bytes
        self._pop.undurable_bytes += size_bytes
        try:
            await self._runtime.store.durable(taken.end_offset)
            # Many become durable at once, and each is copied.
            await self._runtime.portions.wait(holds=True)
            self._runtime.portions.use(size_bytes)
        except asyncio.CancelledError:
            self._pop.give_back(taken)
            raise
        finally:
            self._pop.undurable_bytes -= size_bytes
