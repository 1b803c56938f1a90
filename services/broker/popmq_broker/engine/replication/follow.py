"""The follower's side: its primary's bytes come to disk here, are acknowledged, and what is
committed goes into queues and index, so that this replica can become primary in a moment.

    greet ──► cut or begin anew, if the logs part ──► fetch for ever
                                                  ├─► acknowledge what is on disk
                                                  ├─► the primary's files of config/
                                                  ├─► positions, leases, timers, kept warm
                                                  └─► checkpoints, and files of the log that may go
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol

from popmq_broker.core.replication import catch_up_pace
from popmq_broker.core.replication.catch_up_pace import CatchUpPace
from popmq_broker.core.replication.election import Candidate
from popmq_broker.core.replication.epochs import Epochs, EpochStart
from popmq_broker.core.replication.follower import Following, GoOn, Shipment, start_of
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.engine.replication.directory import ReplicaDirectory
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.files import Files
from popmq_broker.store.files.thread_work import to_the_end
from popmq_broker.store.queues import queue_ends
from popmq_broker.store.recovery.cut_tail import cut_tail
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import DiskFull
from popmq_common.process.logs import Log
from popmq_common.units import MiB
from popmq_internal.v1 import link_pb2 as link

FETCH_BYTES: Final = 1 * MiB
WAIT_MS: Final = 500
CALL_S: Final = 5.0
"""How long a primary may take to answer."""
LEAVE_S: Final = 0.5
"""How long a primary may take to answer that it lets a replica go."""
FILES_S: Final = 5.0
UNSYNCED_BYTES_MAX: Final = 16 * MiB
"""Taken and not on disk yet, above which nothing more is fetched."""
RETENTION_S: Final = 10.0


class ToPrimary(Protocol):
    """A connection to the primary."""

    async def call(self, call: link.Call, timeout_s: float) -> link.Reply: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """This replica's disk and name."""

    me: Candidate
    directory: ReplicaDirectory
    files: Files
    config: StoreConfig
    catch_up_bytes_per_s: int
    log: Log


class Reopen(Exception):
    """The directory was changed while its store was closed; it must be opened and greet again."""


async def say_hello(
    here: Here, record: GroupRecord, store: ReplicaStore, calls: ToPrimary
) -> link.ReplicaHelloReply:
    """From now on this replica acknowledges nothing of an earlier epoch. Raises what a call
    raises, and `DiskFull`."""
    me, directory = here.me, here.directory
    await directory.save(directory.epochs.promise(record.epoch))
    hello = link.ReplicaHello(
        replica=me.replica,
        incarnation=directory.incarnation,
        address=me.address,
        segment_bytes=store.segment_bytes,
        epoch=record.epoch,
        epochs=[
            link.EpochStart(epoch=epoch, start=start) for epoch, start in directory.epochs.starts
        ],
        log_end=store.log_end,
        durable_end=store.durable_end,
    )
    return (await calls.call(link.Call(replica_hello=hello), CALL_S)).replica_hello


async def greet(here: Here, record: GroupRecord, store: ReplicaStore, calls: ToPrimary) -> "Follow":
    """Agree with the primary where this replica goes on.

    Raises `Reopen` after the store was closed and its directory changed, `ReplicaDiverged`, and
    what a call raises.
    """
    directory = here.directory
    reply = await say_hello(here, record, store, calls)
    start, at = start_of(
        split=reply.split if reply.HasField("split") else None,
        log_end=store.log_end,
        primary_log_start=reply.log_start,
        shown_end=store.committed_end,
        counted=reply.counted,
    )
    theirs = tuple(EpochStart(one.epoch, one.start) for one in reply.epochs)
    if start is GoOn.ANEW and (store.log_end or store.log_start != at):
        here.log.warning("replica.begins_anew", log_start=at, before=store.log_end)
        store.abandon()
        directory.empty(at, secrets.token_hex(8))
        known = tuple(one for one in theirs if one.start <= at)
        await directory.save(Epochs(directory.epochs.promised, known))
        raise Reopen
    if start is GoOn.CUT:
        here.log.warning("replica.cut", end=at, before=store.log_end)
        store.abandon()
        await to_the_end(cut_tail, here.files, here.config, at)
        await directory.save(directory.epochs.cut(at))
        raise Reopen
    await directory.take_identity(reply.identity)
    following = Following(directory.epochs, record.epoch, store.log_end, store.durable_end)
    return Follow(here, record, reply.session, following, store, calls)


class Follow:
    def __init__(
        self,
        here: Here,
        record: GroupRecord,
        session: int,
        following: Following,
        store: ReplicaStore,
        calls: ToPrimary,
    ) -> None:
        self._here = here
        self._record = record
        self._session = session
        self._following = following
        self._store = store
        self._calls = calls
        self._synced = asyncio.Event()
        self._primary_log_start = 0
        store.on_disk = self._on_disk

    def _on_disk(self, end_offset: int) -> None:
        self._following.synced(end_offset)
        self._store.commit(self._following.commit_point)
        self._synced.set()

    async def run(self, keep_warm: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """For ever; ends by what a call or the disk raises."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_warm())
            for work in (self._fetch, self._acknowledge, self._copy_files, self._drop_old_files):
                tasks.create_task(work())
            tasks.create_task(self._store.run())

    async def _call(self, call: link.Call) -> link.Reply:
        return await self._calls.call(call, CALL_S)

    async def _fetch(self) -> None:
        following, store = self._following, self._store
        pace = CatchUpPace(self._here.catch_up_bytes_per_s)
        now_s = asyncio.get_running_loop().time
        while True:
            is_far, began_s = pace.is_far(following.log_end, following.primary_end), now_s()
            while following.log_end - following.durable_end > UNSYNCED_BYTES_MAX:
                await self._until_synced()
            fetch = link.ReplicaFetch(
                replica=self._here.me.replica,
                session=self._session,
                epoch=self._record.epoch,
                at=following.log_end,
                durable_end=following.durable_end,
                bytes_max=catch_up_pace.FETCH_BYTES if is_far else FETCH_BYTES,
                wait_ms=WAIT_MS,
            )
            reply = (await self._call(link.Call(replica_fetch=fetch))).replica_fetch
            self._primary_log_start = reply.log_start
            shipment = _shipment(reply)
            if (begins := following.check(shipment)) is not None:
                await self._here.directory.save(following.begin(begins))
            if shipment.data:
                store.take(shipment.data)
                following.written(shipment)
            following.told(shipment.commit_point)
            store.commit(following.commit_point)
            if is_far:
                next_s = pace.next_s(began_s, len(shipment.data), following.primary_end)
                await asyncio.sleep(max(0.0, next_s - now_s()))

    async def _until_synced(self) -> None:
        self._synced.clear()
        await self._synced.wait()

    async def _acknowledge(self) -> None:
        """As soon as something is on disk; what comes meanwhile shares the next one."""
        told = 0
        while True:
            if (end := self._following.durable_end) > told:  # perhaps while the last one was told
                await self._call(link.Call(replica_ack=self._ack(end)))
                told = end
            else:
                await self._until_synced()

    def _ack(self, durable_end: int, *, leaving: bool = False) -> link.ReplicaAck:
        return link.ReplicaAck(
            replica=self._here.me.replica,
            session=self._session,
            epoch=self._record.epoch,
            durable_end=durable_end,
            leaving=leaving,
        )

    async def leave(self) -> None:
        """The primary need not find out by itself that this replica stops. Raises what a call
        raises."""
        ack = self._ack(self._following.durable_end, leaving=True)
        await self._calls.call(link.Call(replica_ack=ack), LEAVE_S)

    async def _copy_files(self) -> None:
        """The primary's settings and offsets: what is in the log stands there too, but a start
        need not read all of it."""
        stamp, empty_ends = 0, ""
        while True:
            ask = link.ReplicaFiles(
                replica=self._here.me.replica, epoch=self._record.epoch, stamp=stamp
            )
            reply = (await self._call(link.Call(replica_files=ask))).replica_files
            empty_ends = empty_ends or reply.queue_ends.decode()
            while self._following.durable_end < reply.log_end:
                await self._until_synced()
            try:
                for file in reply.files:
                    await to_the_end(self._here.directory.write, file.name, file.data)
                stamp = reply.stamp
            except DiskFull as full:
                self._here.log.warning("replica.files_not_written", reason=str(full))
            if empty_ends:
                ends = queue_ends.decode(empty_ends)
                if self._store.visible_end >= ends.log_end:
                    next_offsets = {key: one.next for key, one in ends.queues.items()}
                    self._store.begin_empty(next_offsets)
                    empty_ends = ""
            await asyncio.sleep(FILES_S)

    async def _drop_old_files(self) -> None:
        """Files of the log that the primary has no more."""
        store = self._store
        while True:
            await asyncio.sleep(RETENTION_S)
            while (oldest := store.look_at_oldest()) is not None and oldest.whole:
                if oldest.end > self._primary_log_start:
                    break
                store.oldest.forget(await store.oldest.new_minimums(oldest.end))
                await store.remove_forgotten()


def _shipment(reply: link.ReplicaFetchReply) -> Shipment:
    return Shipment(
        epoch=reply.epoch,
        at=reply.at,
        data=reply.data,
        crc=reply.crc,
        data_epoch=EpochStart(reply.data_epoch.epoch, reply.data_epoch.start),
        commit_point=reply.commit_point,
    )
