"""Consumer groups: make, change, delete."""

from dataclasses import replace

from popmq_broker.core.catalog import catalog, tables
from popmq_broker.core.catalog.catalog import CatalogKind, Change
from popmq_broker.core.catalog.ownership import check_create, wanted_owner
from popmq_broker.core.catalog.settings import changed_group
from popmq_broker.core.catalog.tables import GroupConfig
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.core.retries.retry_policy import TABLE, RetryPolicy
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.position_changes import FORGET
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import BadRequest, FirstUseLimit, GroupExists, TooManyRequests
from popmq_common.records.names import check_group, classic_retry_topic, retry_topic
from popmq_internal.v1 import link_pb2 as link

LOCK_HOLD_MS_MAX = 3_600_000


class Groups:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
        topics: Topics,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._topics = topics
        self._catalog = topics.catalog

    async def put_group(self, request: link.PutGroup) -> link.Done:
        """Make or change a group; returns when that is on disk.

        Raises `IllegalGroup`, `IllegalOwner`, `BadRequest`, `GroupExists`, `OwnedByOther`,
        `TooManyRequests`, `DiskFull`.
        """
        runtime = self._runtime
        known = self._catalog_state.groups.get(request.group.name)
        wanted = _checked(request.group, known)
        if known is not None and request.only_settings:
            wanted = changed_group(known, wanted, request.only_settings)
        if known is not None and request.create:
            if replace(known, owner=wanted.owner) != wanted:
                raise GroupExists(
                    group=known.name,
                    order="in order" if known.fifo else "not in order",
                    max_attempts=known.max_attempts,
                    consume_from=known.consume_from,
                )
            check_create(known, request.group.owner)
            wanted = known
        if known is None or (known != wanted and not request.only_new):
            self._put(known, wanted)
        await runtime.store.durable(runtime.store.log_end)
        return link.Done()

    def _put(self, known: GroupConfig | None, wanted: GroupConfig) -> None:
        runtime = self._runtime
        if known is None and len(self._catalog_state.groups) >= runtime.config.groups_max:
            raise TooManyRequests(what="consumer groups", limit=runtime.config.groups_max)
        switched: list[GroupQueueState] = []
        if known is not None and known.fifo != wanted.fifo:
            switched = self._switch_order(wanted)
        positions = {
            queue.key: queue.position if queue.fifo_queue is None else queue.fifo_queue.first
            for queue in switched
        }
        self._catalog.change(catalog.group(wanted), positions=positions)
        for queue in switched:
            queue.keep_order(fifo=wanted.fifo)
            self._consumer_state.pullers.forget(queue.key)

    def _switch_order(self, group: GroupConfig) -> list[GroupQueueState]:
        """Leases and retries of one way of consuming mean nothing in the other."""
        queues = [
            queue
            for key, queue in self._lease_state.table.queues.items()
            if key.group == group.name
        ]
        if any(queue.in_use or self._retries_wait(queue.key) for queue in queues):
            raise BadRequest(
                reason=f"group {group.name} has messages in flight or to be retried; "
                "whether it consumes in order can change when it has none"
            )
        return queues

    def _retries_wait(self, key: QueueKey) -> bool:
        catalog_state = self._catalog_state
        retry = QueueKey(key.group, retry_topic(key.group, key.topic), 0)
        queue = self._lease_state.group_queue(retry)
        position = catalog_state.min_offset(retry.topic, 0) if queue is None else queue.position
        return retry.topic in catalog_state.topics and position < self._runtime.store.max_offset(
            retry.topic, 0
        )

    async def get_group(self, request: link.GetGroup) -> link.GetGroupReply:
        """Raises `GroupNotFound`, `IllegalGroup`, `FirstUseLimit`."""
        runtime, catalog_state = self._runtime, self._catalog_state
        created = False
        if (
            request.create
            and runtime.config.create_groups
            and request.group not in catalog_state.groups
        ):
            check_group(request.group)
            limit = runtime.config.first_use_groups_max
            if len(catalog_state.groups) >= limit:
                raise FirstUseLimit(
                    what="group", limit=limit, variable="POPMQ_BROKER_FIRST_USE_GROUPS_MAX"
                )
            self._put(None, GroupConfig(name=request.group))
            created = True
            await runtime.store.durable(runtime.store.log_end)
        found = group_message(catalog_state.group(request.group))
        return link.GetGroupReply(group=found, created=created)

    async def delete_group(self, request: link.DeleteGroup) -> link.Done:
        """Raises `GroupNotFound`. A group made later under the name starts like a new one; what
        this one had to retry goes with it."""
        runtime, catalog_state, consumer_state = (
            self._runtime,
            self._catalog_state,
            self._consumer_state,
        )
        catalog_state.group(request.group)
        keys = [key for key in self._lease_state.table.queues if key.group == request.group]
        starts = [start for start in catalog_state.starts if start.group == request.group]
        # its copies are not for a later group of this name
        retries = {retry_topic(request.group, topic) for topic in catalog_state.topics}
        gone = self._topics.removal(retries | {classic_retry_topic(request.group)})
        gone.append(Change(CatalogKind.GROUP, request.group, None))
        self._catalog.change(*gone, positions=dict.fromkeys(keys, FORGET), forgotten=starts)
        for key in keys:
            consumer_state.pullers.forget(key)
        runtime.long_polls.wake_group(request.group)
        runtime.stats.forget_group(request.group)
        consumer_state.locks.forget(group=request.group)
        consumer_state.queue_locks.forget(group=request.group)
        await runtime.store.durable(runtime.store.log_end)
        return link.Done()


def _checked(raw: link.GroupConfig, known: GroupConfig | None) -> GroupConfig:
    """Raises `IllegalGroup`, `IllegalOwner`, `BadRequest`."""
    check_group(raw.name)
    max_hand_outs = (known or GroupConfig(name=raw.name)).max_hand_outs
    if raw.HasField("max_hand_outs"):
        max_hand_outs = raw.max_hand_outs
    for what, count in (("attempts", raw.max_attempts), ("hand-outs", max_hand_outs)):
        if count < 1:
            raise BadRequest(reason=f"max {what} {count}, at least 1 is needed")
    try:
        consume_from = tables.ConsumeFrom(raw.consume_from or "LAST")
    except ValueError:
        text = f"start {raw.consume_from!r}, one of LAST, FIRST, TIME"
        raise BadRequest(reason=text) from None
    group = GroupConfig(
        name=raw.name,
        fifo=raw.fifo,
        max_attempts=raw.max_attempts,
        max_hand_outs=max_hand_outs,
        consume_from=consume_from,
        consume_from_ms=raw.consume_from_ms if consume_from is tables.ConsumeFrom.TIME else 0,
        retry_policy=_policy(raw) if raw.HasField("retry_policy") else TABLE,
        lock_hold_ms=raw.lock_hold_ms,
        owner=wanted_owner(raw, known),
    )
    if not 0 <= group.lock_hold_ms <= LOCK_HOLD_MS_MAX:
        text = f"hold time {group.lock_hold_ms} ms, 0 to {LOCK_HOLD_MS_MAX} allowed"
        raise BadRequest(reason=text)
    group.retry_policy.check()
    return group


def group_message(group: GroupConfig) -> link.GroupConfig:
    policy = group.retry_policy
    return link.GroupConfig(
        name=group.name,
        fifo=group.fifo,
        max_attempts=group.max_attempts,
        max_hand_outs=group.max_hand_outs,
        consume_from=group.consume_from.value,
        consume_from_ms=group.consume_from_ms,
        lock_hold_ms=group.lock_hold_ms,
        owner=group.owner or None,
        retry_policy=link.RetryPolicy(
            delays_ms=policy.delays_ms,
            initial_ms=policy.initial_ms,
            max_ms=policy.max_ms,
            multiplier=policy.multiplier,
        ),
    )


def _policy(raw: link.GroupConfig) -> RetryPolicy:
    policy = raw.retry_policy
    return RetryPolicy(
        delays_ms=tuple(policy.delays_ms),
        initial_ms=policy.initial_ms,
        max_ms=policy.max_ms,
        multiplier=policy.multiplier,
    )
