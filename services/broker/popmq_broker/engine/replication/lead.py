"""The primary's side: followers greet, fetch and acknowledge; the set in sync changes.

hello ──► up to where both logs are equal, and a session
fetch ──► raw bytes of the log, also those that are not on disk here yet
ack   ──► the commit point rises, senders are answered
"""

import asyncio
from collections.abc import Callable
from typing import Final
from zlib import crc32

from popmq_broker.clients.register.register import Register
from popmq_broker.core.replication import epochs as epochs_
from popmq_broker.core.replication import group_record
from popmq_broker.core.replication.epochs import Epochs, EpochStart
from popmq_broker.core.replication.primary import Primary
from popmq_broker.core.replication.whole_records import HEAD_BYTES, first_bytes, whole_bytes
from popmq_broker.engine.replication.directory import ReplicaDirectory
from popmq_broker.store.queues import queue_ends
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import BadRequest, NoSuccessor, RegisterUnreachable, StaleEpoch
from popmq_common.process.logs import Log
from popmq_common.units import MiB
from popmq_internal.v1 import link_pb2 as link

FETCH_BYTES_MAX: Final = 4 * MiB
WAIT_MS_MAX: Final = 5_000
TICK_S: Final = 0.1
"""How often the set in sync is looked at."""


class Deposed(Exception):
    """The register names another primary, or a later epoch."""


class Lead:
    def __init__(
        self,
        primary: Primary,
        store: ReplicaStore,
        directory: ReplicaDirectory,
        register: Register,
        version: int,
        log: Log,
        now_ms: Callable[[], int],
    ) -> None:
        """`version`: of the register's record that names this primary. `now_ms`: of a clock that
        never goes back."""
        self._primary = primary
        self._store = store
        self._directory = directory
        self._register = register
        self._version = version
        self._log = log
        self._now_ms = now_ms
        self._missing: list[str] = []
        self.identity = ""
        self.moving = asyncio.Event()
        """Set when an operator wants another primary."""
        self._move_to = ""
        store.on_disk = self._on_disk

    @property
    def epoch(self) -> int:
        return self._primary.record.epoch

    @property
    def epochs(self) -> Epochs:
        return self._directory.epochs

    def _on_disk(self, end_offset: int) -> None:
        self._store.commit(self._primary.synced(end_offset))

    # --- calls of followers, and of operators ---

    async def handle(self, kind: str, call: link.Call) -> link.Reply:
        """Raises what the call raises."""
        if kind == "replica_fetch":
            return link.Reply(id=call.id, replica_fetch=await self.fetch(call.replica_fetch))
        if kind == "replica_ack":
            return link.Reply(id=call.id, done=await self.ack(call.replica_ack))
        if kind == "replica_files":
            return link.Reply(id=call.id, replica_files=await self.files(call.replica_files))
        if kind == "replica_move":
            return link.Reply(id=call.id, done=self.move(call.replica_move))
        return link.Reply(id=call.id, replica_hello=await self.hello(call.replica_hello))

    async def hello(self, request: link.ReplicaHello) -> link.ReplicaHelloReply:
        """Raises `StaleEpoch`, `BadRequest` for another file size."""
        primary, store = self._primary, self._store
        if request.epoch != self.epoch:
            raise StaleEpoch(replica=request.replica, epoch=request.epoch, now=self.epoch)
        segment_bytes = store.segment_bytes
        if request.segment_bytes != segment_bytes:
            raise BadRequest(
                reason=f"replica {request.replica} has segment_bytes={request.segment_bytes}, "
                f"the primary {segment_bytes}; they must be equal"
            )
        theirs = [EpochStart(one.epoch, one.start) for one in request.epochs]
        split = epochs_.split(theirs, request.log_end, self.epochs.starts, store.log_end)
        durable_end = min(split or 0, request.durable_end)
        now_ms, who = self._now_ms(), (request.replica, request.incarnation, request.address)
        session = primary.joined(*who, durable_end, now_ms)
        self._log.info("replica.greeted", replica=request.replica, split=split)
        return link.ReplicaHelloReply(
            epoch=self.epoch,
            session=session,
            identity=self.identity,
            counted=primary.record.counts(request.replica, request.incarnation),
            split=split,
            log_start=store.log_start,
            epochs=[
                link.EpochStart(epoch=one.epoch, start=one.start) for one in self.epochs.starts
            ],
        )

    async def fetch(self, request: link.ReplicaFetch) -> link.ReplicaFetchReply:
        """Raises `StaleEpoch`, `AckBeyondLog`."""
        self._hear(request)
        store = self._store
        if request.at >= store.log_end:
            store.grown.clear()
            try:
                async with asyncio.timeout(min(request.wait_ms, WAIT_MS_MAX) / 1000):
                    await store.grown.wait()
            except TimeoutError:
                pass
        reply = link.ReplicaFetchReply(
            epoch=self.epoch,
            at=request.at,
            commit_point=self._primary.commit_point,
            log_start=store.log_start,
        )
        found = epochs_.epoch_at(self.epochs.starts, request.at)
        if found is None:
            raise StaleEpoch(replica=request.replica, epoch=-1, now=self.epoch)
        epoch, next_start = found
        bytes_max = min(request.bytes_max, FETCH_BYTES_MAX)
        if next_start is not None:
            bytes_max = min(bytes_max, next_start - request.at)
        reply.data_epoch.epoch, reply.data_epoch.start = epoch
        if request.at < store.log_end:
            reply.data = self._whole_records(request.at, bytes_max)
            reply.crc = crc32(reply.data)
        return reply

    def _whole_records(self, at: int, bytes_max: int) -> bytes:
        """At least one, if it is larger than `bytes_max` too. Raises `BadRequest`."""
        data = self._store.raw(at, bytes_max)
        if end := whole_bytes(data):
            return data[:end]
        head = self._store.raw(at, HEAD_BYTES)
        data = self._store.raw(at, first_bytes(head)) if len(head) == HEAD_BYTES else b""
        if not whole_bytes(data):
            raise BadRequest(reason=f"no record of the primary's log begins at {at}")
        return data

    async def ack(self, request: link.ReplicaAck) -> link.Done:
        """Raises `StaleEpoch`, `AckBeyondLog`."""
        self._hear(request)
        if request.leaving:
            self._primary.left(request.replica, request.session)
        return link.Done()

    def _hear(self, request: link.ReplicaFetch | link.ReplicaAck) -> None:
        heard = request.replica, request.session, request.epoch, request.durable_end
        end = self._primary.heard(*heard, self._store.log_end, self._now_ms())
        self._store.commit(end)

    async def files(self, request: link.ReplicaFiles) -> link.ReplicaFilesReply:
        """Raises `StaleEpoch`."""
        if request.epoch != self.epoch:
            raise StaleEpoch(replica=request.replica, epoch=request.epoch, now=self.epoch)
        log_end = self._store.committed_end
        found = await asyncio.to_thread(lambda: list(self._directory.shared_files(request.stamp)))
        reply = link.ReplicaFilesReply(log_end=log_end, stamp=request.stamp)
        for name, written_ns, data in found:
            reply.stamp = max(reply.stamp, written_ns)
            reply.files.add(name=name, data=data)
        if not request.stamp:
            reply.queue_ends = queue_ends.encode(self._store.watermarks()).encode()
        return reply

    # --- the set in sync ---

    async def until_it_may_go(self, seconds: float) -> None:
        """A replica that stops is missed: while too few would be left in sync, and another one
        catches up, it goes on for so long."""
        for _ in range(int(seconds / TICK_S)):
            if not self._primary.awaits_another(self._now_ms()):
                return
            await asyncio.sleep(TICK_S)

    async def keep_set(self) -> None:
        """Until this replica is primary no more: raises `Deposed`."""
        while True:
            await asyncio.sleep(TICK_S)
            self._tell_missing()
            if self._primary.propose(self._now_ms()) is not None:
                await self._settle()

    def _tell_missing(self) -> None:
        missing = self._primary.missing(self._now_ms())
        if missing != self._missing:
            self._missing = missing
            if missing:
                self._log.warning("replicas.missing", replicas=missing)

    async def _settle(self) -> None:
        """Swap until it is known what the register holds: what may still arrive must count."""
        primary = self._primary
        assert primary.proposed is not None
        value = group_record.encode(primary.proposed)
        while True:
            try:
                version = await self._register.swap(self._version, value)
                if version is None:
                    seen = await self._register.read()
                    if seen.value != value:
                        raise Deposed
                    version = seen.version  # the answer of an earlier try was lost
            except RegisterUnreachable as away:
                self._log.warning("register.unreachable", reason=str(away))
                await asyncio.sleep(TICK_S)
                continue
            self._version = version
            self._store.commit(primary.accepted())
            self._log.info("replicas.in_sync", replicas=sorted(primary.record.in_sync))
            return

    def move(self, request: link.ReplicaMove) -> link.Done:
        """Soon another one is primary. Raises `NoSuccessor`."""
        found, wanted = self._primary.candidates(self._now_ms()), request.to
        if not found or (wanted and wanted not in found):
            in_sync = ", ".join(found) or "none"
            raise NoSuccessor(
                primary=self._primary.replica, to=wanted or "another replica", able=in_sync
            )
        self._move_to = wanted
        self.moving.set()
        return link.Done()

    async def hand_over(self, successor_s: float) -> str | None:
        """Name a follower that has everything primary; None: there was none in time."""
        deadline_ms = self._now_ms() + int(successor_s * 1000)
        while (successor := self._primary.successor(self._now_ms(), self._move_to)) is None:
            if self._now_ms() > deadline_ms:
                return None
            await asyncio.sleep(TICK_S / 5)
        value = group_record.encode(self._primary.handed_over(successor))
        try:
            version = await self._register.swap(self._version, value)
        except RegisterUnreachable as away:
            self._log.warning("register.unreachable", reason=str(away))
            return None
        return successor if version is not None else None

    def describe(self) -> link.ReplicaGroupReply:
        primary, now_ms = self._primary, self._now_ms()
        log_end = self._store.log_end
        reply = link.ReplicaGroupReply(
            replica=primary.replica,
            role="primary",
            epoch=self.epoch,
            min_in_sync=primary.record.min_in_sync,
            log_end=log_end,
            commit_point=primary.commit_point,
            incarnation=self._directory.incarnation,
            last_stored_ms=self._store.last_store_ms,
            forced_epoch=primary.record.forced_epoch,
        )
        reply.members.add(replica=primary.replica, role="primary", address=primary.record.address)
        missing = primary.missing(now_ms)
        for name in sorted(primary.followers.keys() | primary.record.in_sync.keys()):
            if name == primary.replica:
                continue
            follower = primary.followers.get(name)
            counted = follower is not None and primary.record.counts(name, follower.incarnation)
            role = "in sync" if counted and name not in missing else "catching up"
            if primary.is_silent(name, now_ms):
                role = "silent"
            member = reply.members.add(replica=name, role=role)
            if follower is not None:
                member.address = follower.address
                member.behind_bytes = max(0, log_end - follower.durable_end)
                member.silent_ms = now_ms - follower.heard_ms
                if member.behind_bytes:
                    member.behind_ms = now_ms - follower.caught_up_ms
        return reply
