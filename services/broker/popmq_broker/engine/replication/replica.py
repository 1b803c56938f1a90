"""A replica's life: it looks at the register, and leads or follows until that changes.

    look ──► FOUND, LEAD  swap the record ► begin an epoch ► load the broker ► its first record is
      ▲                   committed ► serve, until the register names another
      ├──── FOLLOW        greet ► fetch, until the register names another
      └──── WAIT          until the register changes

Whatever fails on the way, a connection or the register, ends in another look.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from popmq_broker.clients.register.register import Seen
from popmq_broker.core.replication import election, group_record
from popmq_broker.core.replication.election import Candidate, Role
from popmq_broker.core.replication.epochs import BEFORE_REPLICAS, Epochs, EpochStart
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.primary import Primary
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.replication import forced_record, register_watch
from popmq_broker.engine.replication.follow import Here
from popmq_broker.engine.replication.follow_on import follow_on
from popmq_broker.engine.replication.lead import Deposed, Lead
from popmq_broker.engine.replication.register_watch import AGAIN_S, LOOK_S
from popmq_broker.engine.replication.replica_parts import ReplicaParts
from popmq_broker.engine.replication.take_leave import take_leave
from popmq_broker.engine.replication.warm_state import WarmState
from popmq_broker.engine.startup import lease_gap
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import NotPrimary, RegisterUnreachable, ReplicaOfOther
from popmq_common.link.sends import SendCall, SendDone
from popmq_common.link.wire import failure_of
from popmq_internal.v1 import link_pb2 as link

BEATS: Final = 3
"""Heartbeats in a lease."""
HAND_OVER_S: Final = 3.0
COMMITTED_S: Final = 0.5
"""How long a hand-over waits until all in sync have everything; the successor must have it."""
MISSED_S: Final = 5.0
"""How long a stop waits until enough others are in sync."""


class Replica:
    def __init__(self, parts: ReplicaParts) -> None:
        self._parts = parts
        self._log = parts.log.bind(replica=parts.replica)
        self._store: ReplicaStore | None = None
        self._warm: WarmState | None = None
        """Of the store, since it followed."""
        self._lead: Lead | None = None
        self.broker: Broker | None = None
        """While it serves clients."""
        self.role = "starting"
        self._record: GroupRecord | None = None
        self._seen = Seen(None, 0, frozenset())
        self._stopping = asyncio.Event()

    # --- calls ---

    async def handle(self, call: link.Call) -> link.Reply:
        """Raises the errors of popmq_common.errors."""
        kind = call.WhichOneof("body") or ""
        any_may = self._lead is not None or not call.replica_group.of_primary
        if kind == "replica_group" and any_may:
            return link.Reply(id=call.id, replica_group=self.describe())
        if kind.startswith("replica_"):
            if self._lead is None:
                raise self._not_primary()
            return await self._lead.handle(kind, call)
        if self.broker is None:
            raise self._not_primary()
        return await self.broker.handle(call)

    def handle_sends(
        self, calls: Sequence[link.Call | SendCall], answer: Callable[[link.Reply | SendDone], None]
    ) -> None:
        if self.broker is not None:
            self.broker.handle_sends(calls, answer)
            return
        failure = failure_of(self._not_primary())
        for call in calls:
            answer(link.Reply(id=call.id, failure=failure))

    def _not_primary(self) -> NotPrimary:
        own = self._parts.replica
        primary = self._record.primary if self._record is not None else "nobody"
        reason = f"replica {own} is no primary ({self.role}); {primary} is"
        if primary == own:  # its data was lost, or it has not begun
            reason = f"replica {own} was primary, and does not lead ({self.role})"
        return NotPrimary(broker=self._parts.name, reason=reason)

    def describe(self) -> link.ReplicaGroupReply:
        if self._lead is not None:
            described = self._lead.describe()
            described.role = self.role
            return described
        record, store = self._record, self._store
        return link.ReplicaGroupReply(
            replica=self._parts.replica,
            role=self.role,
            epoch=record.epoch if record is not None else 0,
            min_in_sync=record.min_in_sync if record is not None else 0,
            log_end=store.log_end if store is not None else 0,
            commit_point=store.committed_end if store is not None else 0,
            incarnation=self._parts.directory.incarnation,
            last_stored_ms=store.last_store_ms if store is not None else 0,
            forced_epoch=record.forced_epoch if record is not None else 0,
        )

    # --- the life ---

    async def run(self) -> None:
        """Until `stop`. Raises `ReplicaOfOther`, `ReplicaDiverged`, `Corrupt`: it cannot go on."""
        beats = asyncio.create_task(self._beat(), name="heartbeats")
        try:
            while not self._stopping.is_set():
                try:
                    await self._take_a_role()
                except Deposed:
                    continue
                except RegisterUnreachable as away:
                    self._log.warning("register.unreachable", reason=str(away))
                    await asyncio.sleep(AGAIN_S)
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
            self._abandon()
            with suppress(RegisterUnreachable):
                await self._parts.register.leave(self._heart)

    def stop(self) -> None:
        """Hand over, if somebody can take over; then `run` ends."""
        self._stopping.set()

    @property
    def _heart(self) -> str:
        return election.heart(self._parts.replica, self._parts.directory.incarnation)

    async def _beat(self) -> None:
        parts = self._parts
        while True:
            try:
                await parts.register.heartbeat(self._heart, parts.lease_s)
            except RegisterUnreachable as away:
                self._log.warning("register.unreachable", reason=str(away))
            await asyncio.sleep(parts.lease_s / BEATS)

    async def _take_a_role(self) -> None:
        parts = self._parts
        seen = self._seen = await parts.register.read()
        record = self._record = register_watch.decoded(seen, parts.name)
        me, promised = self._me(), parts.directory.epochs.promised
        role, why = election.role_of(me, record, seen.alive, promised)
        if role is Role.REFUSE:
            raise ReplicaOfOther(replica=parts.replica, broker=parts.name, reason=why)
        if role is Role.FOUND:
            identity = me.identity or secrets.token_hex(8)
            fresh = me, identity, parts.min_in_sync, parts.wall_ms(), promised
            await self._promote(election.founding(*fresh), seen, why)
        elif role is Role.LEAD:
            assert record is not None
            following = election.next_epoch(me, record, seen.alive, parts.wall_ms())
            await self._promote(following, seen, why)
        elif role is Role.FOLLOW:
            assert record is not None
            await self._follow(record, why)
        else:
            await self._opened()  # so that it can tell what it has
            self._tell("waiting", why)
            self._seen = await parts.register.wait(seen, LOOK_S)

    def _me(self) -> Candidate:
        parts, directory = self._parts, self._parts.directory
        return Candidate(parts.replica, directory.incarnation, parts.address, directory.identity())

    def _here(self) -> Here:
        parts = self._parts
        return Here(
            me=self._me(),
            directory=parts.directory,
            files=parts.files,
            config=parts.store_config,
            catch_up_bytes_per_s=parts.catch_up_bytes_per_s,
            log=self._log,
        )

    def _tell(self, role: str, why: str) -> None:
        if role != self.role:
            self.role = role
            self._log.info("replica.role", role=role, why=why)

    async def _opened(self) -> ReplicaStore:
        if self._store is None:
            self._store = await self._parts.open_store()
            # An epoch is on disk before its bytes, and perhaps before those that it follows.
            directory = self._parts.directory
            await directory.save(directory.epochs.cut(self._store.log_end + 1))
        return self._store

    def _abandon(self) -> None:
        store, self._store, self._warm = self._store, None, None
        if store is not None and not store.closed:
            store.abandon()

    # --- leading ---

    async def _promote(self, record: GroupRecord, seen: Seen, why: str) -> None:
        parts = self._parts
        store = await self._opened()  # before the swap: a damaged directory must not be elected
        version = await parts.register.swap(seen.version, group_record.encode(record))
        if version is None:
            return  # somebody was faster
        before, self._record = self._record, record
        self._tell("taking over", why)
        await parts.directory.take_identity(record.identity)
        epochs = parts.directory.epochs
        if not epochs.starts and store.log_end:
            epochs = Epochs(epochs.promised, (EpochStart(BEFORE_REPLICAS, 0),))
        await parts.directory.save(epochs.begun(record.epoch, store.log_end))
        await store.lead()
        handed_over = election.was_handed_over(parts.replica, before, epochs)
        silent_since_ms = None if handed_over else store.last_store_ms
        primary = Primary(
            parts.replica,
            parts.directory.incarnation,
            record,
            epoch_end=store.log_end + 1,
            durable_end=store.durable_end,
            lag_ms=parts.lag_ms,
            now_ms=parts.steady_ms(),
        )
        rest = parts.directory, parts.register, version, self._log, parts.steady_ms
        self._lead = Lead(primary, store, *rest)
        self._lead.identity = record.identity
        forced_record.write(store, record, parts.directory.epochs, parts.wall_ms(), self._log)
        try:
            await self._lead_on(self._lead, store, record, silent_since_ms)
        finally:
            self._lead = None
            if self._store is store:
                self._abandon()

    async def _lead_on(
        self, lead: Lead, store: ReplicaStore, record: GroupRecord, silent_since_ms: int | None
    ) -> None:
        """Serve until the register names another (raises `Deposed`), or it is to hand over.

        `silent_since_ms`: when the last primary, which failed, stored something; None: it handed
        over."""
        serving = asyncio.create_task(self._serve(store, record, silent_since_ms), name="serving")
        watching = [
            asyncio.create_task(lead.keep_set(), name="set in sync"),
            asyncio.create_task(self._until_deposed(record), name="register"),
        ]
        leaving = [
            asyncio.create_task(self._until_it_may_stop(lead), name="stop"),
            asyncio.create_task(lead.moving.wait(), name="move"),
        ]
        try:
            await asyncio.wait([serving, *leaving, *watching], return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, *watching):
                if task.done():
                    task.result()
            await self._hand_over(lead, store, serving)
        finally:
            tasks: tuple[asyncio.Task[Any], ...] = (serving, *leaving, *watching)
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_it_may_stop(self, lead: Lead) -> None:
        await self._stopping.wait()
        await lead.until_it_may_go(MISSED_S)

    async def _hand_over(
        self, lead: Lead, store: ReplicaStore, serving: "asyncio.Task[None]"
    ) -> None:
        """A planned stop or move: nothing new is taken, a follower gets the rest and leads. If
        there is none, a replica that does not stop looks at the register and leads again."""
        broker, self.broker = self.broker, None
        self._tell("handing over", "it is to stop" if self._stopping.is_set() else "asked for")
        if broker is not None:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await broker.finish_log()
            with suppress(TimeoutError):  # then its store can be followed with as it is
                async with asyncio.timeout(COMMITTED_S):
                    await store.durable(store.log_end)
        successor = await lead.hand_over(HAND_OVER_S)
        self._log.info("replica.handed_over", successor=successor)
        if successor is None:
            if broker is not None:
                await broker.finish_files()
            return
        if self._stopping.is_set():
            knows = await take_leave(self._parts, self._here(), store, lead.epoch)
            self._log.info("replica.left", successor_knows=knows)
        else:
            self._store = store.handed_over() or store

    async def _serve(
        self, store: ReplicaStore, record: GroupRecord, silent_since_ms: int | None
    ) -> None:
        parts = self._parts
        warm, self._warm = self._warm, None
        state = await warm.take() if warm is not None else None
        is_warm = state is not None
        state = state or parts.new_state(store)
        timers = await warm.timers.take() if warm is not None else None
        state.timers = timers or state.timers
        broker = await parts.load(state, is_warm, record.epoch)
        await store.durable(store.log_end)  # the epoch's first records, and all before them
        if silent_since_ms is not None:
            await lease_gap.add(broker.state.runtime, broker.state.lease_state, silent_since_ms)
        self._tell("primary", f"epoch {record.epoch} is committed")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(broker.run(), name="broker")
            async with parts.serving(broker, record.began_ms):
                self.broker = broker
                try:
                    await asyncio.Event().wait()
                finally:
                    self.broker = None

    async def _until_deposed(self, record: GroupRecord) -> None:
        now = await register_watch.until_deposed(self._parts, record, self._seen)
        self._tell("deposed", f"epoch {now.epoch if now else '?'} has begun")
        raise Deposed

    # --- following ---

    async def _follow(self, record: GroupRecord, why: str) -> None:
        store = await self._opened()
        self._tell("following", why)
        warm = self._warm = self._warm or WarmState(store, self._parts.new_state, self._log)
        try:
            await follow_on(self._parts, self._here(), record, warm, self._seen, self._stopping)
        finally:
            if store.closed:
                self._store = self._warm = None
