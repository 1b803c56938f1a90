"""popmq.admin.v1: consumer groups, on all brokers of the cluster."""

from collections.abc import Sequence
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, GroupNotFound
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext, Upstream

MAX_ATTEMPTS_DEFAULT = 16
SETTINGS: Final = (
    "fifo",
    "max_attempts",
    "max_hand_outs",
    "consume_from",
    "lock_hold_ms",
    "retry_policy",
    "owner",
)
"""What `update` can change."""


class GroupAdminHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def create(
        self, ctx: CallContext, request: admin.CreateGroupRequest
    ) -> admin.CreateGroupResponse:
        """Raises `GroupExists` for one with other settings, `OwnedByOther` for one of another
        owner, `IllegalOwner`, `BadRequest`."""
        group = request.group
        wanted = link.GroupConfig(
            name=group.name,
            fifo=group.fifo,
            max_attempts=group.max_attempts or MAX_ATTEMPTS_DEFAULT,
            consume_from=group.consume_from or "LAST",
            retry_policy=_link_policy(group.retry_policy)
            if group.HasField("retry_policy")
            else None,
            consume_from_ms=group.consume_from_ms,
            lock_hold_ms=group.lock_hold_ms,
            max_hand_outs=group.max_hand_outs if group.HasField("max_hand_outs") else None,
            owner=group.owner or None,
        )
        known = await self._known(group.name)
        brokers = await self._upstream.registered()
        # those that have it first: when it is refused there it is made nowhere
        having = [broker for broker in brokers if broker in known]
        await self._put(having, link.PutGroup(group=wanted, create=True))
        wanted.owner = group.owner or max((one.owner for one in known.values()), default="")
        lacking = [broker for broker in brokers if broker not in known]
        await self._put(lacking, link.PutGroup(group=wanted, create=True))
        return admin.CreateGroupResponse(brokers=sorted(brokers), existed=not lacking)

    async def update(
        self, ctx: CallContext, request: admin.UpdateGroupRequest
    ) -> admin.UpdateGroupResponse:
        """Raises `GroupNotFound`, `IllegalOwner`, `BadRequest`."""
        known = await self._known(request.name)
        if not known:
            raise GroupNotFound(group=request.name)
        wanted = next(iter(known.values()))
        settings = [name for name in SETTINGS if request.HasField(name)]
        if not settings:
            raise BadRequest(reason="nothing to change was named")
        for name in set(settings) - {"retry_policy"}:
            setattr(wanted, name, getattr(request, name))
        if request.HasField("consume_from"):
            wanted.consume_from_ms = request.consume_from_ms
        if request.HasField("retry_policy"):
            wanted.retry_policy.CopyFrom(_link_policy(request.retry_policy))
        brokers = await self._put(
            await self._upstream.registered(), link.PutGroup(group=wanted, only_settings=settings)
        )
        now = await self._known(request.name)
        return admin.UpdateGroupResponse(
            group=_group(next(iter(now.values()), wanted)), brokers=brokers
        )

    async def delete(
        self, ctx: CallContext, request: admin.DeleteGroupRequest
    ) -> admin.DeleteGroupResponse:
        """Raises `GroupNotFound`."""
        known = await self._known(request.name)
        if not known:
            raise GroupNotFound(group=request.name)
        for broker in known:
            call = link.Call(delete_group=link.DeleteGroup(group=request.name))
            await self._upstream.call(broker, call)
        self._upstream.forget_group(request.name)
        self._upstream.starts.forget(request.name)
        return admin.DeleteGroupResponse()

    async def list_all(
        self, ctx: CallContext, request: admin.ListGroupsRequest
    ) -> admin.ListGroupsResponse:
        call = link.Call(describe=link.Describe(settings_only=True, no_topics=True))
        replies = await self._upstream.on_all_brokers(call)
        groups = {
            status.config.name: status.config
            for reply in replies.values()
            for status in reply.describe.groups
        }
        wanted = request.contains.lower()
        return admin.ListGroupsResponse(
            groups=[_group(groups[name]) for name in sorted(groups) if wanted in name.lower()],
            total=len(groups),
        )

    async def describe(
        self, ctx: CallContext, request: admin.DescribeGroupRequest
    ) -> admin.DescribeGroupResponse:
        """Raises `GroupNotFound`."""
        if request.settings_only:
            group = await self._upstream.group_everywhere(request.name)
            if group is None:
                raise GroupNotFound(group=request.name)
            return admin.DescribeGroupResponse(group=_group(group))
        found = await self._upstream.described(link.Describe(group=request.name))
        if not found:
            raise GroupNotFound(group=request.name)
        config = next(iter(found.values())).groups[0].config
        response = admin.DescribeGroupResponse(group=_group(config))
        for broker, reply in found.items():
            for queue in reply.groups[0].queues:
                response.queues.add(
                    broker=broker,
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    committed_offset=queue.committed_offset,
                    max_offset=queue.max_offset,
                    in_flight=queue.in_flight,
                    lag=queue.lag,
                    expired=queue.expired,
                    min_offset=queue.min_offset,
                    locked_by=queue.locked_by,
                )
        return response

    async def _known(self, name: str) -> dict[str, link.GroupConfig]:
        """As each broker that has it has it."""
        describe = link.Describe(group=name, settings_only=True)
        found = await self._upstream.described(describe)
        return {broker: reply.groups[0].config for broker, reply in found.items()}

    async def _put(self, brokers: Sequence[str], put: link.PutGroup) -> list[str]:
        """One after the other; the brokers, by name."""
        for broker in brokers:
            await self._upstream.call(broker, link.Call(put_group=put))
        self._upstream.forget_group(put.group.name)
        return sorted(brokers)


def _group(config: link.GroupConfig) -> admin.Group:
    policy = config.retry_policy
    return admin.Group(
        name=config.name,
        fifo=config.fifo,
        max_attempts=config.max_attempts,
        consume_from=config.consume_from,
        consume_from_ms=config.consume_from_ms,
        lock_hold_ms=config.lock_hold_ms,
        max_hand_outs=config.max_hand_outs if config.HasField("max_hand_outs") else None,
        owner=config.owner,
        retry_policy=admin.RetryPolicy(
            delays_ms=policy.delays_ms,
            initial_ms=policy.initial_ms,
            max_ms=policy.max_ms,
            multiplier=policy.multiplier,
        ),
    )


def _link_policy(policy: admin.RetryPolicy) -> link.RetryPolicy:
    return link.RetryPolicy(
        delays_ms=policy.delays_ms,
        initial_ms=policy.initial_ms,
        max_ms=policy.max_ms,
        multiplier=policy.multiplier,
    )
