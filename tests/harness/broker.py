"""A real broker engine for tests: real files, a clock that is moved by hand, a disk that can lose
what was not synced."""

import asyncio
import random
import shutil
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from harness.broker_calls import (
    Popped,
    ack_body,
    change_body,
    end_body,
    half_body,
    handle,
    later_body,
    nack_body,
    pop_body,
    popped,
    popped_of,
    recall_body,
    send_body,
)
from harness.handle_runs import runs_of
from harness.names import GROUP, TOPIC

from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.broker import Broker
from popmq_common.process.clock import VirtualClock
from popmq_internal.v1 import link_pb2 as link

T = TypeVar("T")
QUICK_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""What a crash loses is decided by the driver, so the disk need not be one."""
SEGMENT_BYTES = 8 * 1024  # small, so that files roll all the time


class EngineDriver:
    """Synchronous access to a broker on its own event loop."""

    def __init__(
        self, folder: Path, *, like: "EngineDriver | None" = None, **settings: Any
    ) -> None:
        """`like`: another broker of the same cluster, whose clock and event loop this one shares;
        it is closed last."""
        self._folder = folder
        self._generation = 0
        self._settings = settings
        self._shares_loop = like is not None
        self.clock: VirtualClock = like.clock if like else VirtualClock()
        self.loop: asyncio.AbstractEventLoop = like.loop if like else asyncio.new_event_loop()
        self.broker = self._open()

    @property
    def data_dir(self) -> Path:
        return self._folder / f"data-{self._generation}"

    def _open(self) -> Broker:
        config = BrokerConfig(
            data_dir=self.data_dir,
            **{
                "segment_bytes": SEGMENT_BYTES,
                "queue_file_bytes": 200,
                "index_slots": 20,
                "index_entries": 200,
                "create_groups": True,
                "disk_reserve_bytes": 0,
                "known_sends_max": 0,  # an id is its body, and tests send one body often
                "disk_clean_percent": 100,
                "disk_refuse_percent": 100,
                **self._settings,
            },
        )
        return self.run(open_engine(config, self.clock))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    async def handle(self, call: link.Call) -> link.Reply:
        """As a proxy's call comes to the broker that runs now. Raises `PopMQError`."""
        return await handle(self.broker, call)

    def call(self, **body: Any) -> link.Reply:
        return self.run(self.handle(link.Call(**body)))

    def start(self, **body: Any) -> "asyncio.Task[link.Reply]":
        """A call whose answer is not waited for; it has been decided and appended."""

        async def step() -> "asyncio.Task[link.Reply]":
            task = asyncio.ensure_future(self.handle(link.Call(**body)))
            for _ in range(5):  # as far as it gets without the disk
                await asyncio.sleep(0)
            return task

        return self.run(step())

    def make(
        self,
        queues: int = 2,
        max_attempts: int = 16,
        start: str = "FIRST",
        start_ms: int = 0,
        *,
        fifo: bool = False,
        **more: Any,
    ) -> None:
        """`more`: of the group."""
        topic = link.TopicConfig(
            name=TOPIC, read_queues=queues, write_queues=queues, message_type="MIXED"
        )
        self.call(put_topic=link.PutTopic(topic=topic))
        group = link.GroupConfig(
            name=GROUP,
            fifo=fifo,
            max_attempts=max_attempts,
            consume_from=start,
            consume_from_ms=start_ms,
            **more,
        )
        self.call(put_group=link.PutGroup(group=group))

    def send(
        self,
        body: str,
        tag: str | None = None,
        message_group: str = "",
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Messages of a message group go to one queue, by its first letter. `more`: properties."""
        queue_id = len(message_group) and ord(message_group[0]) % self._queues()
        queue_id = queue_id if message_group else -1
        self.call(**send_body(body, tag, message_group, queue_id, more))

    def _queues(self) -> int:
        return self.broker.state.catalog_state.topics[TOPIC].write_queues

    def pop(
        self,
        count: int = 32,
        invisible_ms: int = 10_000,
        expression: str = "",
        attempt_id: str = "",
        sql: str = "",
        renewed_by: str = "",
        *,
        by_runs: bool = False,
    ) -> list[Popped]:
        """`renewed_by`: the client whose signs of life renew the leases."""
        body = pop_body(count, invisible_ms, expression, attempt_id, sql, renewed_by)
        body["pop"].by_runs = by_runs
        reply = self.call(**body).pop
        assert not (reply.messages if by_runs else reply.runs)
        of_runs = [message for run in reply.runs for message in popped_of(run)]
        return [popped(message) for message in reply.messages] + of_runs

    def ack(self, *handles: str) -> list[int]:
        return list(self.call(**ack_body(handles)).ack.outcomes)

    def ack_by_runs(self, *handles: str) -> list[int]:
        runs, order = runs_of(handles)
        ack = link.Ack(group=GROUP, topic=TOPIC, runs=runs)
        outcomes = self.call(ack=ack).ack.outcomes
        return [outcomes[i] for i in order]

    def change(self, handle: str, invisible_ms: int) -> link.ChangeInvisibleReply:
        return self.call(**change_body(handle, invisible_ms)).change_invisible

    def extend(self, invisible_ms: int, *handles: str) -> list[int]:
        runs, order = runs_of(handles)
        asked = link.Extend(group=GROUP, topic=TOPIC, runs=runs, invisible_ms=invisible_ms)
        outcomes = self.call(extend=asked).extend.outcomes
        return [outcomes[i] for i in order]

    def nack(
        self,
        *handles: str,
        kind: int = link.NACK_KIND_COUNTED,
        delay_ms: int = -1,
        reason: str = "",
    ) -> list[int]:
        return list(self.call(**nack_body(handles, kind, delay_ms, reason)).nack.outcomes)

    def nack_by_runs(
        self,
        *handles: str,
        kind: int = link.NACK_KIND_COUNTED,
        delay_ms: int = -1,
        reason: str = "",
    ) -> list[int]:
        runs, order = runs_of(handles)
        body = nack_body([], kind, delay_ms, reason)
        body["nack"].runs.extend(runs)
        outcomes = self.call(**body).nack.outcomes
        return [outcomes[i] for i in order]

    def dead_letters(self, **fields: Any) -> link.ListDeadLettersReply:
        request = link.ListDeadLetters(group=GROUP, **{"count_max": 100, **fields})
        return self.call(list_dead_letters=request).list_dead_letters

    def redrive(
        self, *, to_topic: bool = True, dry_run: bool = False, **fields: Any
    ) -> link.RedriveReply:
        which = link.Redrive(group=GROUP, **{"count_max": 100, **fields})
        request = link.RedriveDeadLetters(which=which, to_topic=to_topic, dry_run=dry_run)
        return self.call(redrive_dead_letters=request).redrive

    def purge(self, **fields: Any) -> link.PurgeReply:
        request = link.PurgeDeadLetters(group=GROUP, **fields)
        return self.call(purge_dead_letters=request).purge_dead_letters

    def half(self, body: str, immunity_s: int = 0) -> tuple[int, int]:
        """A half message; what its transaction id says of it."""
        reply = self.call(**half_body(body, immunity_s)).send
        return reply.queue_offset, reply.log_offsets[0]

    def end(self, half: tuple[int, int], *, commit: bool) -> None:
        self.call(**end_body(half, commit=commit))

    def poll_checks(self, *topics: str, count_max: int = 100) -> list[link.HalfMessage]:
        """What a proxy whose producers publish to these is to ask."""
        request = link.PollChecks(topics=topics or [TOPIC], count_max=count_max)
        return list(self.call(poll_checks=request).poll_checks.checks)

    def alive(self, *client_ids: str) -> None:
        self.call(alive=link.Alive(client_ids=client_ids))

    def gone(self, *client_ids: str) -> None:
        self.call(gone=link.Gone(client_ids=client_ids))

    def advance(self, ms: int) -> None:
        """Time passes, what stays too long in memory is stored, whatever is due is revived."""
        self.clock.advance(ms)
        while self.run(self.broker.storing.store_due()):
            pass
        while self.run(self.broker.revive.revive_due()):
            pass
        self.deliver_due()
        self.run(self._tend())

    async def _tend(self) -> None:
        """What is written again is on disk, and may be asked about."""
        await self.broker.checks.tend()
        await self.broker.state.runtime.store.durable(self.broker.state.runtime.store.log_end)

    def deliver_due(self) -> None:
        """What is due now comes into its topic, and is on disk."""

        async def step() -> bool:
            found = self.broker.timers.deliver_due()
            damage = self.broker.state.runtime.damage
            noted = not damage.is_saved
            await damage.saved_quietly()
            await self.broker.state.runtime.store.durable(self.broker.state.runtime.store.log_end)
            return found or noted

        while self.run(step()):
            pass

    def send_later(self, body: str, delay_ms: int, tag: str | None = None) -> int:
        """A message for later; returns when it is due."""
        due_ms = self.clock.now_ms() + delay_ms
        self.call(**later_body(body, due_ms, tag))
        return due_ms

    def recall(self, body: str, due_ms: int) -> None:
        self.call(**recall_body(body, due_ms))

    def fill_disk(self, used_percent: int) -> None:
        """As its size and free space say from now on, until the next start."""
        watch: Any = self.broker.state.runtime.store.disk
        watch._files = SimpleNamespace(
            total_bytes=lambda _: 100, free_bytes=lambda _: 100 - used_percent
        )
        watch.look(self.clock.now_ms())

    def retain(self) -> int:
        """A round of retention, behind a checkpoint and a write of the files of config/; how many
        files of the log it deleted."""
        self.run(self.broker.catalog.save())
        self.run(self.broker.state.runtime.store.checkpoint())
        return self.run(self.broker.retention.round())

    def restart(self) -> None:
        self.stop()
        self.go_on()

    def stop(self) -> None:
        """Cleanly; its files are at rest."""
        self.run(self.broker.close())

    def go_on(self, **settings: Any) -> None:
        """It starts on what is there now, with these settings beside those from before."""
        self._settings |= settings
        self.broker = self._open()

    def hold_disk(self) -> None:
        """From now on nothing more reaches the disk."""
        self.broker.state.runtime.store._flusher.request = lambda position: None  # type: ignore[method-assign]

    def let_go_of_disk(self) -> None:
        """What was held back reaches it."""
        self.end_hold()
        store = self.broker.state.runtime.store
        self.run(store.durable(store.log_end))

    def end_hold(self) -> None:
        """The disk begins to take what was held back."""
        store = self.broker.state.runtime.store
        del store._flusher.request
        store._ask_flush()

    def crash(self, rng: random.Random) -> None:
        """Power off: of what was not synced any first part survives, maybe torn; then start."""
        store = self.broker.state.runtime.store
        kept = rng.randint(store.durable_end, store.log_end)
        old = self.data_dir
        self._generation += 1
        shutil.copytree(old, self.data_dir)
        _zero_behind(self.data_dir / "commitlog", kept)
        self._abandon()
        self.broker = self._open()

    def wipe(self) -> None:
        """The disk is lost, and the broker starts on an empty one."""
        self._generation += 1
        self._abandon()
        self.broker = self._open()

    def _abandon(self) -> None:
        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.loop.run_until_complete(cancel())
        store = self.broker.state.runtime.store
        store._flusher.close()
        store._commit_log.close()
        store._queues.close()
        if store.index is not None:
            store.index.release()
        store._lock.release()

    def close(self) -> None:
        self._abandon()
        if not self._shares_loop:
            self.loop.close()


def _zero_behind(folder: Path, kept: int) -> None:
    for path in folder.iterdir():
        base = int(path.name)
        size = path.stat().st_size
        if base + size > kept:
            with open(path, "r+b") as file:
                file.truncate(max(0, kept - base))
                file.truncate(size)
